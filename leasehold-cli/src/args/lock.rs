//! The arguments of the actions that hold a lock.

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use leasehold::{Error, LockName};

use super::values::{Wait, duration, name, permits, positive, wait};

/// Which locks to acquire, and how.
#[derive(Debug, Args)]
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

    /// Share NAME with other jobs that use --shared, and exclude all others: for jobs that only read
    #[arg(long, conflicts_with_all = ["permits", "at_least"])]
    pub shared: bool,

    /// Another lock to hold together with NAME: all of them or none. May be given several times
    #[arg(long, value_name = "NAME", value_parser = name())]
    pub also: Vec<LockName>,

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

    /// If the lock is lost: the time between SIGTERM and SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub grace: Duration,

    /// Give COMMAND the store's URL, with its password, in LEASEHOLD_STORE; without this option
    /// COMMAND does not have that variable
    #[arg(long)]
    pub pass_store: bool,

    /// The command to run, and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Arguments of `hold`.
#[derive(Debug, Args)]
pub struct Hold {
    /// Which lock.
    #[command(flatten)]
    pub lock: Lock,
}
