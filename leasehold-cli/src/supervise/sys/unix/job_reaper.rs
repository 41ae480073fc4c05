//! The job reaper: a process between leasehold and COMMAND. It starts COMMAND, and ends the whole
//! job (SIGTERM, a grace time, SIGKILL): on request, when leasehold is gone, and by itself when the
//! validity of the lock comes to its end. So a leasehold that is stopped or blocked does no harm.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use futures_util::StreamExt;
use leasehold::backend::{Env as _, Instant, SystemEnv};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait,
};

use super::kernel::{self, Shell};
use super::signal_forwarding::{self, Reach};
use super::wire::{Greeting, Wire, greeted};
use super::{launch, number, pid_of};
use crate::exit;
use crate::supervise::alarm::Alarm;
use crate::supervise::deadline::Deadline;
use crate::supervise::messages::{Order, Report};
use crate::tunables::KILL_LIMIT;

pub(super) fn main(command: impl Iterator<Item = OsString>) -> ExitCode {
    // The name is not "leasehold", so that `killall -9 leasehold` does not kill the one process
    // that ends the job.
    kernel::set_name(c"job-reaper");
    match start(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            exit::complain(format_args!("job reaper: {}", exit::cause(&error)));
            exit::CANNOT_EXECUTE.into()
        }
    }
}

fn start(command: impl Iterator<Item = OsString>) -> io::Result<()> {
    // Our standard input is the socket. COMMAND inherits the original, but not this copy.
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // If leasehold has ended before it sent its greeting, there is nothing to do or to report.
    let Ok(Greeting { group, deadline, stdin }) = greeted(&socket) else { return Ok(()) };
    kernel::adopt()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut wire = Wire::new(socket)?;
        // Before COMMAND starts, so that neither its end nor that of the shell can be missed.
        let deaths = signal_forwarding::deaths()?;
        let shared = group.and_then(pid_of);
        let shell = shared.and_then(Shell::of);
        let Some((deadline, early)) = until_in_time(&mut wire, deadline).await else {
            return Ok(());
        };
        match launch(command, group, stdin) {
            Ok(pid) => {
                wire.send(Report::Started(number(pid)));
                let (command, reaped) = (pid, false);
                let state = JobReaper { wire, deaths, deadline, command, shared, shell, reaped };
                early.into_iter().for_each(|signal| state.forward(signal));
                state.watch().await;
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(Errno::AGAIN.raw_os_error());
                wire.send(Report::Failed(errno));
            }
        }
        Ok(())
    })
}

/// Waits until the deadline is to come, so that COMMAND does not start after it: this process may
/// have begun slowly, or have been stopped. Later deadlines may already be there, or signals, which
/// this returns. `None` if COMMAND must not start any more.
async fn until_in_time(wire: &mut Wire, first: Deadline) -> Option<(Deadline, Vec<i32>)> {
    let (mut deadline, mut early) = (first, Vec::new());
    while SystemEnv.now() >= deadline.term {
        match wire.receive().await? {
            Order::Extend(later) => {
                deadline = later;
                wire.send(Report::Noted);
            }
            Order::Forward(signal) => early.push(signal),
            Order::End(_) => {
                wire.send(Report::Gone(0));
                return None;
            }
            Order::Kill => {
                wire.send(Report::Signalled(Signal::KILL.as_raw()));
                return None;
            }
            Order::Done => return None,
        }
    }
    Some((deadline, early))
}

/// Starts the process that becomes COMMAND. It does so on the main thread, because a parent-death
/// signal is sent when the *thread* that started the child ends.
fn launch(
    command: impl Iterator<Item = OsString>,
    group: Option<u32>,
    stdin: OwnedFd,
) -> io::Result<Pid> {
    let mut launcher = Command::new(kernel::ourselves()?);
    launcher.arg0("leasehold").arg(launch::ARG).arg(getpid().as_raw_nonzero().to_string());
    kernel::set_group(&mut launcher, group);
    let child = launcher.args(command).stdin(stdin).spawn()?;
    pid_of(child.id()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

struct JobReaper {
    wire: Wire,
    deaths: signal_forwarding::Deaths,
    deadline: Deadline,
    command: Pid,
    /// The group that COMMAND shares with leasehold and perhaps others; `None` if it leads its own.
    shared: Option<Pid>,
    /// The process that would continue that group after a Ctrl-Z.
    shell: Option<Shell>,
    /// Whether COMMAND was reaped. Another process may then have its id.
    reaped: bool,
}

impl JobReaper {
    async fn watch(mut self) {
        let mut validity_ends = Alarm::unset();
        let left = loop {
            validity_ends.set(Some(self.deadline.term));
            tokio::select! {
                // After a pause of the machine, a renewal may be confirmed already.
                biased;
                order = self.wire.receive() => match order {
                    Some(Order::Forward(signal)) => self.forward(signal),
                    Some(Order::Extend(deadline)) => {
                        self.deadline = deadline;
                        self.wire.send(Report::Noted);
                    }
                    Some(Order::End(grace)) => {
                        let kill = (SystemEnv.now() + grace).min(self.deadline.kill);
                        break self.end(kill).await;
                    }
                    Some(Order::Kill) => drop(self.kill().await),
                    Some(Order::Done) => return,
                    None => break self.kill().await,
                },
                () = validity_ends.rung() => {
                    self.wire.send(Report::Ending);
                    break self.end(self.deadline.kill).await;
                }
                () = Shell::watch(&mut self.shell) => {}
                _ = self.deaths.next() => drop(self.reap()),
            }
        };
        self.wire.send(Report::Gone(left));
    }

    /// Ends the job: SIGTERM, and SIGKILL at `kill`, or as soon as leasehold is gone. Returns how
    /// many processes have survived.
    async fn end(&mut self, kill: Instant) -> u64 {
        self.signal_all(Signal::TERM);
        // A stopped process acts on SIGTERM only after it is continued.
        self.signal_all(Signal::CONT);
        let mut grace_ends = Alarm::unset();
        grace_ends.set(Some(kill));
        loop {
            if self.reap() {
                return 0;
            }
            tokio::select! {
                () = grace_ends.rung() => break,
                _ = self.deaths.next() => {}
                () = kernel::next_look() => {}
                order = self.wire.receive() => match order {
                    Some(Order::Forward(signal)) => self.forward(signal),
                    Some(Order::End(grace)) => {
                        grace_ends.set(Some((SystemEnv.now() + grace).min(kill)));
                    }
                    Some(Order::Kill) | None => break,
                    Some(_) => {}
                },
            }
        }
        self.kill().await
    }

    /// Sends SIGKILL to all processes until none is left. A process that was started meanwhile has
    /// a parent that we have killed, and the death of that parent wakes us to send again. Returns
    /// how many processes have survived.
    async fn kill(&mut self) -> u64 {
        let mut gives_up = Alarm::unset();
        gives_up.set(Some(SystemEnv.now() + KILL_LIMIT));
        loop {
            self.signal_all(Signal::KILL);
            if self.reap() {
                return 0;
            }
            tokio::select! {
                // After a pause of the machine both are ready, and some processes may not have been
                // signalled yet.
                biased;
                _ = self.deaths.next() => {}
                () = gives_up.rung() => return kernel::left(self.command),
                () = kernel::next_look() => {}
            }
        }
    }

    /// Reaps all dead children, also those that COMMAND has left behind, and reports the end of
    /// COMMAND. Returns whether no process of the job is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.command && !self.reaped => {
                    self.reaped = true;
                    self.wire.send(report_of(status));
                }
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(Errno::INTR) => {}
                Err(_) => return kernel::is_gone(self.shared.is_none().then_some(self.command)),
            }
        }
    }

    /// Passes a signal on to the processes that would get it from a terminal.
    fn forward(&self, number: i32) {
        let Some(signal) = named(number) else { return };
        match (signal_forwarding::reach(number), self.shared) {
            _ if self.reaped => {}
            (Reach::Command, _) => drop(kill_process(self.command, signal)),
            (Reach::Job, None) => drop(kill_process_group(self.command, signal)),
            (Reach::Job, Some(group)) => {
                for process in
                    kernel::below(getpid()).iter().filter(|each| each.group == Some(group))
                {
                    process.signal(signal);
                }
            }
        }
    }

    /// Signals every process of the job, also those that have left its process group.
    ///
    /// First COMMAND's own group in one call, which no fork can escape; then each other process of
    /// the tree once.
    fn signal_all(&self, signal: Signal) {
        let group = (self.shared.is_none() && !self.reaped).then_some(self.command);
        if let Some(group) = group
            && kill_process_group(group, signal) == Err(Errno::SRCH)
        {
            // It does not lead its group yet.
            let _ = kill_process(group, signal);
        }
        for process in kernel::below(getpid()) {
            if group.is_none() || process.group != group {
                process.signal(signal);
            }
        }
    }
}

fn report_of(status: WaitStatus) -> Report {
    match status.terminating_signal() {
        Some(signal) => Report::Signalled(signal),
        None => Report::Exited(status.exit_status().unwrap_or(0) as u8),
    }
}

/// The signal with this number. All forwarded signals have a name.
fn named(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// On a busy machine a process may begin later than the first deadline of a short lease.
    #[tokio::test]
    async fn a_late_start_uses_the_later_deadlines_that_are_already_there() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (leasehold, mut wire) = (Wire::new(ours).unwrap(), Wire::new(theirs).unwrap());
        let now = SystemEnv.now();
        let at = |instant| Deadline { term: instant, kill: instant };
        let (passed, later) = (at(now), at(now + Duration::from_secs(3600)));
        for order in [Order::Extend(passed), Order::Forward(15), Order::Extend(later)] {
            leasehold.send(order);
        }
        assert_eq!(until_in_time(&mut wire, passed).await, Some((later, vec![15])));
        drop(leasehold);
        assert_eq!(until_in_time(&mut wire, passed).await, None);
    }
}
