//! leasehold's handle of a running job: the job reaper and the socket to it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process_group, set_child_subreaper};

use super::signals::Signals;
use super::tree::{self, Process};
use super::wire::{Order, Report, Wire, greet};
use super::{ChildSpec, OURSELVES, job_reaper};
use crate::tunables::{KILL_LOOKS, KILL_POLL};

/// A running job. Dropping this closes the socket, and the job reaper then kills the job.
pub(super) struct Job {
    parent: Child,
    /// The job reaper as it was when it started. No process of the job is older.
    first: Option<Process>,
    wire: Wire,
    /// The group that COMMAND leads; `None` until it is started, or if it shares ours.
    group: Option<Pid>,
    shared: bool,
}

impl Job {
    /// Starts the job reaper, which starts COMMAND in the process group `shared`, or in a new one.
    pub(super) fn start(spec: &ChildSpec, shared: Option<Pid>) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // If the job reaper is killed, the processes that it leaves behind become ours.
        set_child_subreaper(Some(getpid()))?;
        let mut command = Command::new(OURSELVES);
        for name in &spec.env_remove {
            command.env_remove(name);
        }
        let parent = command
            .arg0("leasehold")
            .arg(job_reaper::ARG)
            .arg(&spec.program)
            .args(&spec.args)
            .envs(spec.env.iter().map(|(key, value)| (key, value)))
            .stdin(OwnedFd::from(theirs))
            // Out of reach of the terminal and of signals to our group.
            .process_group(0)
            .spawn()?;
        let group = shared.map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        greet(&ours, group, io::stdin())?;
        let first = tree::read(Pid::from_child(&parent));
        Ok(Self { parent, first, wire: Wire::new(ours)?, group: None, shared: shared.is_some() })
    }

    /// The next report; `None` if the job reaper is gone. Cancel safe.
    pub(super) async fn report(&mut self) -> Option<Report> {
        let report = self.wire.receive().await;
        if let (Some(Report::Started(pid)), false) = (report, self.shared) {
            self.group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        }
        report
    }

    /// Passes a signal on to the job.
    pub(super) async fn forward(&self, signal: i32) {
        self.wire.send(Order::Forward(signal)).await;
    }

    /// Ends the whole job, and passes signals on meanwhile. Returns how many processes could not be ended.
    pub(super) async fn end(&mut self, grace: Duration, signals: &mut Signals) -> u64 {
        self.wire.send(Order::End(grace)).await;
        loop {
            tokio::select! {
                biased;
                report = self.report() => match report {
                    Some(Report::Gone(left)) => return left,
                    // COMMAND may have ended before the order arrived. The job reaper still ends the other processes.
                    Some(_) => {}
                    None => return self.kill().await,
                },
                signal = signals.next_for_job() => self.forward(signal).await,
            }
        }
    }

    /// Kills the whole job, after the job reaper was killed. Returns how many processes survived.
    ///
    /// COMMAND itself has died of its parent-death signal. In theory another process could have its id by now, but only if all
    /// process ids were used up within a moment.
    pub(super) async fn kill(&self) -> u64 {
        let mut looks = 0;
        loop {
            if let Some(group) = self.group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let left = self.first.as_ref().map(|first| tree::below_since(getpid(), first));
            let left = left.unwrap_or_default();
            // Counts checks instead of time: if the machine was paused meanwhile, no process was signalled.
            if left.is_empty() || looks >= KILL_LOOKS {
                return left.len() as u64;
            }
            looks += 1;
            for process in &left {
                process.signal(Signal::KILL);
            }
            tokio::time::sleep(KILL_POLL).await;
        }
    }

    /// Ends the job reaper, and leaves no zombie.
    pub(super) async fn finish(mut self) {
        self.wire.send(Order::Done).await;
        // The job reaper exits at once, so this does not block the runtime for long.
        let _ = self.parent.wait();
    }
}
