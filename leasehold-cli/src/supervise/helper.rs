//! A helper process of leasehold: this executable, started again, with a socket between the two.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::Pid;
use tokio::time::{Instant, timeout};

use super::OURSELVES;
use super::deadline::Deadline;
use super::wire::{Greeting, Order, Report, Wire, greet};
use crate::tunables::{ANSWER_LEAST, ANSWER_LIMIT, ANSWER_MOST, ANSWER_PART};

/// A running helper. Dropping this closes the socket, which the helper notices.
pub(super) struct Helper {
    process: Child,
    wire: Wire,
    /// Not on the clock that counts suspend, because the helper cannot answer then either.
    answer_due: Option<Instant>,
    answer_limit: Duration,
}

impl Helper {
    /// The command that starts this executable in the given role.
    pub(super) fn command(role: &str) -> Command {
        let mut command = Command::new(OURSELVES);
        command.arg0("leasehold").arg(role);
        command
    }

    /// Starts the helper of a lock with this lease, and greets it.
    pub(super) fn start(
        command: &mut Command,
        group: Option<u32>,
        deadline: Deadline,
        lease: Duration,
    ) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        command.stdin(OwnedFd::from(theirs));
        // Out of reach of the terminal and of signals to our group.
        let process = command.process_group(0).spawn()?;
        // The command keeps its streams, and so the other end of the socket.
        command.stdin(std::process::Stdio::null());
        greet(&ours, &Greeting { group, deadline, stdin: io::stdin() })?;
        let wire = Wire::new(ours)?;
        let answer_limit = (lease / ANSWER_PART).clamp(ANSWER_LEAST, ANSWER_MOST);
        let mut helper = Self { process, wire, answer_due: None, answer_limit };
        helper.expect_answer();
        Ok(helper)
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// The next report; `None` if the helper is gone. Cancel safe.
    pub(super) async fn report(&mut self) -> Option<Report> {
        let report = self.wire.receive().await;
        self.answer_due = None;
        report
    }

    /// Sends an order that needs no answer.
    pub(super) fn send(&self, order: Order) {
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
