//! leasehold's handle of a running job: the job reaper and the socket to it.

use std::io;
use std::time::Duration;

use leasehold::backend::{Env as _, Instant, SystemEnv};

use super::ChildSpec;
use super::alarm::Alarm;
use super::deadline::{Deadline, Validity};
use super::helper::{Helper, Role};
use super::messages::{Order, Report};
use super::sys::{Signals, Tree};
use crate::tunables::ANSWER_LIMIT;

/// A running job. Dropping this closes the socket, and the job reaper then kills the job.
pub(super) struct Job {
    reaper: Helper,
    tree: Tree,
    overdue: Instant,
}

impl Job {
    /// Starts the job reaper, which starts COMMAND.
    pub(super) fn start(
        spec: &ChildSpec,
        signals: &Signals,
        validity: Validity,
        grace: Duration,
    ) -> io::Result<Self> {
        let mut tree = Tree::new(signals)?;
        let (mut command, ours) = Helper::prepare(Role::JobReaper)?;
        for name in &spec.env_remove {
            command.env_remove(name);
        }
        command.arg(&spec.program).args(&spec.args);
        command.envs(spec.env.iter().map(|(key, value)| (key, value)));
        let deadline = Deadline::of(validity, grace);
        let reaper = Helper::start((command, ours), Some(&mut tree), deadline, validity.lease)?;
        Ok(Self { reaper, tree, overdue: validity.overdue() })
    }

    /// The next report; `None` if the job reaper is gone. Cancel safe.
    pub(super) async fn report(&mut self) -> Option<Report> {
        let report = self.reaper.report().await;
        if let Some(Report::Started(pid)) = report {
            self.tree.has_command(pid);
        }
        report
    }

    /// Passes a signal on to the job.
    pub(super) fn forward(&mut self, signal: i32) {
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

    /// Kills the whole job, after the job reaper has ended. Returns how many processes survived.
    pub(super) async fn kill(&self) -> u64 {
        self.tree.kill().await
    }

    /// Ends the job reaper.
    pub(super) async fn finish(self) {
        self.reaper.finish().await;
    }
}
