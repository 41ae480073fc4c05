//! The signals that leasehold catches for its job, and which of them it passes on.
//!
//! A signal comes from the terminal or from a process. A terminal sends its signals (Ctrl-C,
//! Ctrl-\, hang-up, a new size) to each process of the foreground group, with the kernel as the
//! sender. So a COMMAND in our group already has them. A process that calls `kill` on leasehold
//! means COMMAND, so leasehold passes that signal on. (A `kill` to the whole *group* looks the
//! same: a COMMAND in our group then gets the signal twice.)
//!
//! In two cases the kernel is the sender and COMMAND did not get the signal: COMMAND leads a group
//! of its own; or the terminal hangs up and we lead the session, because only the leader gets that
//! signal.
//!
//! Signals that were ignored when leasehold started (`nohup`; jobs that a script starts with `&`)
//! stay ignored, for leasehold and for COMMAND.
//!
//! Stopping: in a terminal Ctrl-Z stops COMMAND and leasehold, so the lock is not renewed. The job
//! reaper, which goes on, ends the job before the lock ends. Without a terminal leasehold passes
//! SIGTSTP on and continues: the job is suspended, the lock stays held. Not covered: if COMMAND
//! stops only itself, in a terminal, the shell does not notice.

use std::fs;
use std::io;

use futures_util::StreamExt;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, getpid};
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::exfiltrator::{SignalOnly, WithOrigin};
use signal_hook::low_level::siginfo::{Cause, Origin};
use signal_hook_tokio::SignalsInfo;

use super::kernel;

const FORWARDED: [i32; 9] =
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP];

/// The signals that end leasehold while it has no job.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Wakes the job reaper whenever a process has died.
pub(super) type Deaths = SignalsInfo<SignalOnly>;

/// The processes that get a forwarded signal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The processes that a terminal would reach: COMMAND's process group.
    Job,
    /// COMMAND alone.
    Command,
}

/// SIGUSR1 and SIGUSR2 go to COMMAND alone: it defines their meaning, and they would kill helpers
/// without a handler. The others are those of a terminal, and SIGTERM: if it ended only a shell,
/// the program that the shell waits for would continue without the lock.
pub(super) fn reach(signal: i32) -> Reach {
    if matches!(signal, SIGUSR1 | SIGUSR2) { Reach::Command } else { Reach::Job }
}

/// The relation of this process to its controlling terminal.
#[derive(Debug, Clone, Copy)]
struct Terminal {
    /// Our process group, if our session has a controlling terminal. The job stays in this group.
    shared: Option<Pid>,
    /// Whether we lead the session, and so get the signal when the terminal hangs up.
    leader: bool,
}

impl Terminal {
    fn look() -> Self {
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let own = kernel::own();
        let (group, session) = own.map_or((None, None), |own| (own.group, own.session));
        let there = rustix::fs::open("/dev/tty", flags, Mode::empty()).is_ok();
        Self { shared: group.filter(|_| there), leader: session == Some(getpid()) }
    }

    /// The signal that the job must still get after a signal has reached us.
    fn for_job(self, signal: i32, from_kernel: bool) -> Option<i32> {
        if self.shared.is_none() || !from_kernel {
            return Some(signal);
        }
        match signal {
            SIGHUP if self.leader => Some(SIGHUP),
            // The job has the hang-up, but cannot act on it while it is stopped. The kernel does
            // not continue it, because the job reaper, in another group of the session, looks like
            // its shell.
            SIGHUP | SIGCONT => Some(SIGCONT),
            _ => None,
        }
    }
}

/// Catches signals, which then do not have their usual effect on leasehold.
///
/// Made before the acquire, so that no signal can end leasehold between the acquire and the start
/// of the job.
pub struct Signals {
    caught: SignalsInfo<WithOrigin>,
    terminal: Terminal,
}

impl Signals {
    /// Starts catching. Needs a running tokio runtime.
    ///
    /// # Errors
    ///
    /// When a handler or its pipe cannot be set up.
    pub fn catch() -> io::Result<Self> {
        let terminal = Terminal::look();
        let ignored = Ignored::at_start();
        let wanted = FORWARDED
            .into_iter()
            .filter(|&signal| !ignored.contains(signal))
            // In a terminal it must stop us too, or the shell would not get its prompt back.
            .filter(|&signal| !(terminal.shared.is_some() && signal == SIGTSTP));
        Ok(Self { caught: SignalsInfo::new(wanted)?, terminal })
    }

    /// Waits for a signal that asks leasehold to end, while there is no job that could get it.
    /// Returns the signal's number; the exit code is 128 more. Cancel safe.
    pub async fn asked_to_end(&mut self) -> i32 {
        loop {
            let signal = self.next().await.signal;
            if ENDING.contains(&signal) {
                return signal;
            }
        }
    }

    /// Waits for the next signal that the job must get. Cancel safe.
    pub(in crate::supervise) async fn next_for_job(&mut self) -> i32 {
        loop {
            let Origin { signal, cause, .. } = self.next().await;
            if let Some(signal) = self.terminal.for_job(signal, cause == Cause::Kernel) {
                return signal;
            }
        }
    }

    /// The process group that the job must stay in; `None` if it leads its own.
    pub(super) fn shared_group(&self) -> Option<Pid> {
        self.terminal.shared
    }

    async fn next(&mut self) -> Origin {
        match self.caught.next().await {
            Some(origin) => origin,
            // Only its handle can end the stream, and we give out none.
            None => std::future::pending().await,
        }
    }
}

/// The signals of the job reaper: it wakes when a process dies, and catches all other signals
/// without effect. It uses a handler and not `SIG_IGN`, because COMMAND would inherit that.
pub(super) fn deaths() -> io::Result<Deaths> {
    let ignored = Ignored::at_start();
    let harmless = FORWARDED.into_iter().filter(|&signal| !ignored.contains(signal));
    SignalsInfo::new(harmless.chain([SIGCHLD]))
}

/// The signals that this process ignores.
struct Ignored(u64);

impl Ignored {
    /// Reads them from `/proc`, before any handler is set. If `/proc` cannot be read, none counts
    /// as ignored.
    fn at_start() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self::parse(&status)
    }

    fn parse(status: &str) -> Self {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        Self(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
    }

    fn contains(&self, signal: i32) -> bool {
        self.0 >> (signal - 1) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_of_the_terminal_is_not_forwarded() {
        let shared = Terminal { shared: Some(getpid()), leader: false };
        assert_eq!(shared.for_job(SIGINT, true), None);
        assert_eq!(shared.for_job(SIGHUP, true), Some(SIGCONT), "it may be stopped");
        assert_eq!(shared.for_job(SIGINT, false), Some(SIGINT));

        let leader = Terminal { shared: Some(getpid()), leader: true };
        assert_eq!(leader.for_job(SIGINT, true), None);
        assert_eq!(leader.for_job(SIGHUP, true), Some(SIGHUP), "the leader alone is told");

        let alone = Terminal { shared: None, leader: false };
        assert_eq!(alone.for_job(SIGINT, true), Some(SIGINT), "nobody else can have told it");
    }

    #[test]
    fn reads_the_mask_of_ignored_signals() {
        // As under `nohup`; SIGPIPE is always there, the runtime library ignores it.
        let ignored = Ignored::parse("Name:\tx\nSigBlk:\tffff\nSigIgn:\t0000000000001001\n");
        assert!(ignored.contains(SIGHUP));
        assert!(!ignored.contains(SIGINT));
        assert!(!Ignored::parse("").contains(SIGHUP));
    }
}
