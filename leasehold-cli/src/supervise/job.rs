//! leasehold's handle on a running job: the job reaper and the socket to it.

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

/// A job that runs. Dropping it closes the socket, upon which the job reaper kills the job.
pub(super) struct Job {
    parent: Child,
    /// The same as it was at first: nothing of the job is older.
    first: Option<Process>,
    wire: Wire,
    /// The group that COMMAND leads; none while it is not started, or where it shares ours.
    group: Option<Pid>,
    shared: bool,
}

impl Job {
    /// Starts the job reaper, which starts COMMAND: in the process group `shared`, else in one
    /// of its own.
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

    /// Ends the whole job, and goes on passing signals on meanwhile; tells how many processes could not
    /// be ended.
    pub(super) async fn end(&mut self, grace: Duration, signals: &mut Signals) -> u64 {
        self.wire.send(Order::End(grace)).await;
        loop {
            tokio::select! {
                biased;
                report = self.report() => match report {
                    Some(Report::Gone(left)) => return left,
                    // Its end may have crossed our order, which is then still carried out for what it
                    // left behind.
                    Some(_) => {}
                    None => return self.kill().await,
                },
                signal = signals.next_for_job() => self.forward(signal).await,
            }
        }
    }

    /// Kills all of the job: the last resort when the job reaper was killed. Tells how many processes
    /// outlived it.
    ///
    /// COMMAND itself has died of its parent-death signal. Its id could in theory belong to
    /// somebody else by now; that takes a wrap of all process ids within a moment.
    pub(super) async fn kill(&self) -> u64 {
        let mut looks = 0;
        loop {
            if let Some(group) = self.group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let left = self.first.as_ref().map(|first| tree::below_since(getpid(), first));
            let left = left.unwrap_or_default();
            // Counted and not timed: if the machine stood still meanwhile, nobody has been signalled.
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

    /// Lets the job reaper go, and leaves no zombie.
    pub(super) async fn finish(mut self) {
        self.wire.send(Order::Done).await;
        // It leaves at once, so this does not hold up the runtime.
        let _ = self.parent.wait();
    }
}
