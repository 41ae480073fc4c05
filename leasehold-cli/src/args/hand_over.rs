//! The arguments of the actions that hand a lock from one call of the command to the next, and of
//! `release`, which also takes locks away.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold::{FencingToken, LockName, OwnerLabel};

use super::values::{Wait, file, label, name, positive, token, wait};
use super::{Lock, Output};

/// Arguments of `acquire`.
#[derive(Debug, Args)]
pub struct Acquire {
    /// The file for the held lock, which only this user may read. It replaces a file that is there
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub handle_file: PathBuf,

    /// How long the lock is held after this call, and after each renew: at most the longest lease
    /// of the store, which is 30s if nobody has changed it
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub lease: Duration,

    /// How long to wait for the lock: 0s for a single try, or forever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = wait)]
    pub wait: Wait,

    /// Exit code if the lock is not acquired in time
    #[arg(long, value_name = "N", default_value_t = crate::exit::NOT_ACQUIRED)]
    pub conflict_exit_code: u8,

    /// The label of the holder, for people: shown by inspect, list and to jobs that wait [default:
    /// label= in the store's URL, else HOST:PID]
    #[arg(long, value_name = "TEXT", value_parser = label())]
    pub label: Option<OwnerLabel>,

    /// What to lock: 1 to 255 bytes of UTF-8 without control characters
    #[arg(value_name = "NAME", value_parser = name())]
    pub name: LockName,
}

impl Acquire {
    /// The same as the options of `hold`.
    pub fn lock(&self) -> Lock {
        Lock {
            lease: self.lease,
            wait: self.wait,
            quarantine_wait: None,
            at_least: Duration::ZERO,
            conflict_exit_code: self.conflict_exit_code,
            permits: None,
            shared: false,
            also: Vec::new(),
            label: self.label.clone(),
            name: self.name.clone(),
        }
    }
}

/// Arguments of `renew`.
#[derive(Debug, Args)]
pub struct Renew {
    /// The file of the held lock, as acquire has written it
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub handle_file: PathBuf,

    /// How long the lock is held after this call [default: as before]
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub lease: Option<Duration>,
}

/// Arguments of `release`.
#[derive(Debug, Args)]
pub struct Release {
    /// Required with NAME, because the holder is not asked and may still be working
    #[arg(long, required_unless_present = "handle_file")]
    pub force: bool,

    /// Release the lock that acquire has written to FILE, and remove FILE
    #[arg(long, value_name = "FILE", value_parser = file())]
    #[arg(conflicts_with_all = ["force", "token", "name", "json"])]
    pub handle_file: Option<PathBuf>,

    /// Free the grant with this fencing token only. If it no longer holds the lock, leave the lock
    /// alone, say who holds it, and exit with 75
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    pub token: Option<FencingToken>,

    /// The lock to take away
    #[arg(value_name = "NAME", value_parser = name(), required_unless_present = "handle_file")]
    pub name: Option<LockName>,

    /// How to print.
    #[command(flatten)]
    pub output: Output,
}
