//! The arguments of `run` and `hold`, the actions that hold a lock.

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use humantime::format_duration;
use leasehold::{Error, LockName, OwnerLabel};

use super::values::{Wait, duration, label, name, period, permits, positive, wait};
use crate::supervise::{Graces, longest_grace};
use crate::tunables::{GRACE_WITHOUT_NOTICE, LOSS_GRACE_PART};

/// Which locks to acquire, and how.
#[derive(Clone, Debug, Args)]
pub struct Lock {
    /// How long the store keeps the lock if its holder crashes
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = positive)]
    pub lease: Duration,

    /// How long to wait for the lock: 0s for a single try, or forever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = wait)]
    pub wait: Wait,

    /// How long to wait for the end of a quarantine, before --wait begins: 0s to not wait [default:
    /// until it ends]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub quarantine_wait: Option<Duration>,

    /// Keep the lock at least this long, even if the work under it ends sooner
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub at_least: Duration,

    /// Exit code if the lock is not acquired in time
    #[arg(long, value_name = "N", default_value_t = crate::exit::NOT_ACQUIRED)]
    pub conflict_exit_code: u8,

    /// Let N jobs run under NAME at a time, instead of one: 1 to 128, the same for all jobs of NAME
    #[arg(long, value_name = "N", value_parser = permits, conflicts_with = "also")]
    pub permits: Option<u32>,

    /// Share NAME with other jobs that use --shared, and exclude all others: for jobs that only
    /// read
    #[arg(long, conflicts_with_all = ["permits", "at_least"])]
    pub shared: bool,

    /// Another lock to hold together with NAME: all of them or none. May be given several times
    #[arg(long, value_name = "NAME", value_parser = name())]
    pub also: Vec<LockName>,

    /// The label of the holder, for people: shown by inspect, list and to jobs that wait [default:
    /// label= in the store's URL, else HOST:PID]
    #[arg(long, value_name = "TEXT", value_parser = label())]
    pub label: Option<OwnerLabel>,

    /// What to lock: 1 to 255 bytes of UTF-8 without control characters
    #[arg(value_name = "NAME", value_parser = name())]
    pub name: LockName,
}

impl Lock {
    /// NAME and all of `--also`, in the order given.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        [&self.name].into_iter().chain(&self.also)
    }

    /// Refuses a name that is given twice, and the name of a permit that is too long.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut seen = HashSet::new();
        if let Some(twice) = self.names().find(|name| !seen.insert(*name)) {
            return Err(format!("lock {twice:?} must be given once, not twice"));
        }
        let Some(permits) = self.permits else { return Ok(()) };
        let slot = LockName::new(format!("{}/{}", self.name, permits.saturating_sub(1)));
        slot.map(drop).map_err(|error: Error| {
            format!("the name of a permit is NAME/0 to NAME/{}: {error}", permits.saturating_sub(1))
        })
    }
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Which lock.
    #[command(flatten)]
    pub lock: Lock,

    /// Run COMMAND at most once per PERIOD, on whichever machine: only if no run of NAME has
    /// succeeded in that time. The store remembers the last run
    #[arg(long, value_name = "PERIOD", value_parser = period)]
    #[arg(conflicts_with_all = ["permits", "also", "shared", "at_least"])]
    pub once_per: Option<Duration>,

    /// With --once-per: a run that has begun counts, whatever comes of it. Without this option a
    /// run that failed or did not end is tried again
    #[arg(long, requires = "once_per")]
    pub at_most_once: bool,

    /// With --once-per, if the store may have lost the last run: run COMMAND, or exit with 69.
    /// Without this option leasehold exits with 69, and refuses a store that does not promise to
    /// keep records
    #[arg(long, value_name = "run|fail", requires = "once_per")]
    pub if_unknown: Option<IfUnknown>,

    /// With --once-per: exit code if COMMAND has already run
    #[arg(long, value_name = "N", default_value_t = 0, requires = "once_per")]
    pub done_exit_code: u8,

    /// After SIGTERM to leasehold: how long COMMAND may wind down before SIGKILL, or forever. The
    /// lock is held meanwhile
    #[arg(long, value_name = "DURATION", default_value = "forever", value_parser = wait)]
    pub grace: Wait,

    /// If the lock cannot be renewed: how long before its end COMMAND gets SIGTERM; at most a third
    /// of the time for which the lock is valid; 0s: SIGTERM and SIGKILL together, a twentieth of
    /// the lease (at most 1s) before the end [default: a quarter of --lease]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub loss_grace: Option<Duration>,

    /// Give COMMAND the store's URL, with its password, in LEASEHOLD_STORE; without this option
    /// COMMAND does not have that variable
    #[arg(long)]
    pub pass_store: bool,

    /// The command to run, and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<OsString>,
}

impl Run {
    /// How long COMMAND may wind down.
    pub fn graces(&self) -> Graces {
        let shutdown = match self.grace {
            Wait::AtMost(grace) => Some(grace),
            Wait::Forever => None,
        };
        let not_renewed = self.loss_grace.unwrap_or(self.lock.lease / LOSS_GRACE_PART);
        Graces { not_renewed, lost: not_renewed.min(GRACE_WITHOUT_NOTICE), shutdown }
    }

    /// Refuses a grace time that would end jobs whose renewals are in time.
    pub(super) fn check(&self) -> Result<(), String> {
        let lease = self.lock.lease;
        let longest = longest_grace(lease);
        match self.loss_grace {
            Some(grace) if grace > longest => Err(format!(
                "--loss-grace {} must be between 0s and {}, a third of the time for which a lock with \
                 --lease {} is valid",
                format_duration(grace),
                format_duration(Duration::from_millis(longest.as_millis() as u64)),
                format_duration(lease)
            )),
            _ => Ok(()),
        }
    }
}

/// What to do if it is unknown whether COMMAND has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IfUnknown {
    /// Run it.
    Run,
    /// Exit with 69.
    Fail,
}

/// Arguments of `hold`.
#[derive(Debug, Args)]
pub struct Hold {
    /// Which lock.
    #[command(flatten)]
    pub lock: Lock,
}
