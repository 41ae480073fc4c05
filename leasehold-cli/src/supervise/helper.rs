//! A helper process of leasehold: this executable, started again, with a socket between the two.

use std::io;
use std::process::{Child, Command};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::deadline::Deadline;
use super::messages::{Order, Report};
use super::sys::{self, Endpoint, Tree, Wire};
use crate::tunables::{ANSWER_LEAST, ANSWER_LIMIT, ANSWER_MOST, ANSWER_PART};

/// What a helper process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Ends a job.
    JobReaper,
    /// Watches `hold`.
    HoldWatcher,
}

impl Role {
    /// The hidden first argument.
    pub(super) fn arg(self) -> &'static str {
        match self {
            Self::JobReaper => "__job-reaper",
            Self::HoldWatcher => "__hold-watcher",
        }
    }

    /// The role of a process with this first argument.
    pub(super) fn of(arg: &str) -> Option<Self> {
        [Self::JobReaper, Self::HoldWatcher].into_iter().find(|role| role.arg() == arg)
    }
}

/// A running helper. Dropping this closes the socket, which the helper notices.
pub(super) struct Helper {
    process: Child,
    wire: Wire,
    /// Not on the clock that counts suspend, because the helper cannot answer then either.
    answer_due: Option<Instant>,
    answer_limit: Duration,
}

impl Helper {
    /// The command that starts this executable in the given role, and our end of the connection.
    pub(super) fn prepare(role: Role) -> io::Result<(Command, Endpoint)> {
        sys::prepare(role)
    }

    /// Starts the helper of a lock with this lease, and greets it.
    pub(super) fn start(
        (mut command, ours): (Command, Endpoint),
        tree: Option<&mut Tree>,
        deadline: Deadline,
        lease: Duration,
    ) -> io::Result<Self> {
        let (process, wire) = sys::begin(&mut command, ours, tree.as_deref(), deadline)?;
        if let Some(tree) = tree {
            tree.starts_with(&process)?;
        }
        let answer_limit = (lease / ANSWER_PART).clamp(ANSWER_LEAST, ANSWER_MOST);
        let mut helper = Self { process, wire, answer_due: None, answer_limit };
        helper.expect_answer();
        Ok(helper)
    }

    /// The next report; `None` if the helper is gone. Cancel safe.
    pub(super) async fn report(&mut self) -> Option<Report> {
        let report = self.wire.receive().await;
        self.answer_due = None;
        report
    }

    /// Sends an order that needs no answer.
    pub(super) fn send(&mut self, order: Order) {
        self.wire.send(order);
    }

    /// Gives the helper a later deadline, and expects an answer.
    pub(super) fn extend(&mut self, deadline: Deadline) {
        self.wire.send(Order::Extend(deadline));
        self.expect_answer();
    }

    fn expect_answer(&mut self) {
        self.answer_due.get_or_insert(Instant::now() + self.answer_limit);
    }

    /// By when the helper must have answered; `None` if no answer is due.
    pub(super) fn answer_due(&self) -> Option<Instant> {
        self.answer_due
    }

    /// Kills the helper. This also ends one that is stopped.
    pub(super) fn kill(&mut self) {
        // It fails only if the helper has ended already.
        let _ = self.process.kill();
    }

    /// Ends the helper. Leaves no zombie, unless the kernel takes long to end the process.
    pub(super) async fn finish(mut self) {
        self.wire.send(Order::Done);
        let gone = async { while self.wire.receive::<Report>().await.is_some() {} };
        if timeout(ANSWER_LIMIT, gone).await.is_err() {
            self.kill();
        }
        let _ = self.process.try_wait();
    }
}
