//! leasehold's handle of a running job: the job reaper and the socket to it.

use std::io;
use std::time::Duration;

use leasehold::backend::{Env as _, Instant, SystemEnv};
use rustix::process::{Pid, Signal, getpid, kill_process_group, set_child_subreaper};

use super::alarm::Alarm;
use super::deadline::{Deadline, Validity};
use super::helper::Helper;
use super::signal_forwarding::Signals;
use super::tree::{self, Process};
use super::wire::{Order, Report};
use super::{ChildSpec, job_reaper};
use crate::tunables::{ANSWER_LIMIT, KILL_LOOKS, KILL_POLL};

/// A running job. Dropping this closes the socket, and the job reaper then kills the job.
pub(super) struct Job {
    reaper: Helper,
    /// The job reaper as it was when it started. No process of the job is older.
    first: Option<Process>,
    /// The group that COMMAND leads; `None` until it is started, or if it shares ours.
    group: Option<Pid>,
    shared: bool,
    overdue: Instant,
}

impl Job {
    /// Starts the job reaper, which starts COMMAND in the process group `shared`, or in a new one.
    pub(super) fn start(
        spec: &ChildSpec,
        shared: Option<Pid>,
        validity: Validity,
        grace: Duration,
    ) -> io::Result<Self> {
        // If the job reaper is killed, the processes that it leaves behind become ours.
        set_child_subreaper(Some(getpid()))?;
        let mut command = Helper::command(job_reaper::ARG);
        for name in &spec.env_remove {
            command.env_remove(name);
        }
        command.arg(&spec.program).args(&spec.args);
        command.envs(spec.env.iter().map(|(key, value)| (key, value)));
        let group = shared.map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        let deadline = Deadline::of(validity, grace);
        let reaper = Helper::start(&mut command, group, deadline, validity.lease)?;
        let (first, overdue) = (tree::read(reaper.pid()), validity.overdue());
        Ok(Self { reaper, first, group: None, shared: shared.is_some(), overdue })
    }

    /// The next report; `None` if the job reaper is gone. Cancel safe.
    pub(super) async fn report(&mut self) -> Option<Report> {
        let report = self.reaper.report().await;
        if let (Some(Report::Started(pid)), false) = (report, self.shared) {
            self.group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        }
        report
    }

    /// Passes a signal on to the job.
    pub(super) fn forward(&self, signal: i32) {
        self.reaper.send(Order::Forward(signal));
    }

    /// Gives the job a later deadline, after a renewal.
    pub(super) fn extend(&mut self, validity: Validity, grace: Duration) {
        self.overdue = validity.overdue();
        self.reaper.extend(Deadline::of(validity, grace));
    }

    /// By when the job reaper must have answered; `None` if no answer is due.
    pub(super) fn answer_due(&self) -> Option<tokio::time::Instant> {
        self.reaper.answer_due()
    }

    /// When this process must have ended the job, if the job reaper has not: between the job
    /// reaper's SIGKILL and the end of the validity.
    pub(super) fn overdue(&self) -> Instant {
        self.overdue
    }

    /// Orders the job reaper to kill the job, which it reports as the end of COMMAND.
    pub(super) fn order_kill(&mut self) {
        self.reaper.send(Order::Kill);
    }

    /// Ends the whole job: SIGTERM, and SIGKILL after `grace`. Passes signals on meanwhile. Returns
    /// how many processes could not be ended.
    pub(super) async fn end(&mut self, grace: Duration, signals: &mut Signals) -> u64 {
        self.reaper.send(Order::End(grace));
        self.until_gone(SystemEnv.now() + grace + ANSWER_LIMIT, signals).await
    }

    /// Waits until the job reaper has ended the job, and passes signals on meanwhile. Ends both
    /// itself at `limit`: the job reaper may be stopped. Returns how many processes could not be
    /// ended.
    pub(super) async fn until_gone(&mut self, limit: Instant, signals: &mut Signals) -> u64 {
        let mut overdue = Alarm::unset();
        overdue.set(Some(limit));
        loop {
            tokio::select! {
                biased;
                report = self.report() => match report {
                    Some(Report::Gone(left)) => return left,
                    // COMMAND may have ended before the order arrived. The job reaper still ends
                    // the other processes.
                    Some(_) => {}
                    None => return self.kill().await,
                },
                () = overdue.rung() => return self.kill_all().await,
                signal = signals.next_for_job() => self.forward(signal),
            }
        }
    }

    /// Kills the job reaper, which does not answer, and the whole job. Returns how many processes
    /// survived.
    pub(super) async fn kill_all(&mut self) -> u64 {
        self.reaper.kill();
        self.kill().await
    }

    /// Kills the whole job, after the job reaper was killed. Returns how many processes survived.
    ///
    /// COMMAND itself has died of its parent-death signal. In theory another process could have its
    /// id by now, but only if all process ids were used up within a moment.
    pub(super) async fn kill(&self) -> u64 {
        let mut looks = 0;
        loop {
            if let Some(group) = self.group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let left = self.first.as_ref().map(|first| tree::below_since(getpid(), first));
            let left = left.unwrap_or_default();
            // Counts checks instead of time: if the machine was paused meanwhile, no process was
            // signalled.
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

    /// Ends the job reaper.
    pub(super) async fn finish(self) {
        self.reaper.finish().await;
    }
}
