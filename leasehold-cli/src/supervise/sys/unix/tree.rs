//! leasehold's side of the processes of the job: what it can kill itself.

use std::io;
use std::process::Child;

use rustix::process::{Pid, Signal, getpid, kill_process_group};

use super::signal_forwarding::Signals;
use super::{kernel, pid_of};
use crate::tunables::{KILL_LOOKS, KILL_POLL};

pub(in crate::supervise) struct Tree {
    /// The job reaper as it was when it started. No process of the job is older.
    first: Option<kernel::Process>,
    /// The group that COMMAND leads; `None` until it is started, or if it shares ours.
    group: Option<Pid>,
    /// The group that COMMAND shares with us.
    shared: Option<Pid>,
}

impl Tree {
    pub(in crate::supervise) fn new(signals: &Signals) -> io::Result<Self> {
        // If the job reaper is killed, the processes that it leaves behind become ours.
        kernel::adopt()?;
        Ok(Self { first: None, group: None, shared: signals.shared_group() })
    }

    pub(super) fn shared(&self) -> Option<Pid> {
        self.shared
    }

    /// The job reaper runs.
    pub(in crate::supervise) fn starts_with(&mut self, reaper: &Child) -> io::Result<()> {
        self.first = kernel::read(Pid::from_child(reaper));
        Ok(())
    }

    /// COMMAND runs.
    pub(in crate::supervise) fn has_command(&mut self, pid: u32) {
        if self.shared.is_none() {
            self.group = pid_of(pid);
        }
    }

    /// Kills the whole job, after the job reaper has ended. Returns how many processes survived.
    ///
    /// COMMAND itself has died of its parent-death signal. In theory another process could have its
    /// id by now, but only if all process ids were used up within a moment.
    pub(in crate::supervise) async fn kill(&self) -> u64 {
        let mut looks = 0;
        loop {
            if let Some(group) = self.group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let left = self.first.as_ref().map(|first| kernel::below_since(getpid(), first));
            let left = left.unwrap_or_default();
            let is_gone = left.is_empty() && kernel::is_gone(self.group);
            // Counts checks instead of time: if the machine was paused meanwhile, no process was
            // signalled.
            if is_gone || looks >= KILL_LOOKS {
                return left.len().max(usize::from(!is_gone)) as u64;
            }
            looks += 1;
            for process in &left {
                process.signal(Signal::KILL);
            }
            tokio::time::sleep(KILL_POLL).await;
        }
    }
}
