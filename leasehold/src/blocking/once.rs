//! A job that runs once per period.

use lock_core::{Doubt, Error, FencingToken, IfUnknown, LastRun, StoreTime, UnknownRun};

use super::client::Shared;

/// A job that runs at most once per period, as [`crate::Once`].
///
/// ```
/// # #[cfg(feature = "memory")]
/// # fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::blocking::{self, Decision};
///
/// # fn send_the_report() -> Result<(), &'static str> { Ok(()) }
/// let client = blocking::connect("memory:")?;
/// match client.lock("report").once_per(Duration::from_secs(86_400)).begin()? {
///     Decision::Due(run) => match send_the_report() {
///         Ok(()) => run.succeeded()?,
///         Err(_) => run.failed()?,
///     },
///     Decision::NotDue(last) => println!("{} ran it at {}", last.label, last.began),
///     Decision::Unknown(unknown) => println!("has it run? {}", unknown.why),
/// }
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "memory"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `begin`"]
pub struct Once {
    once: crate::Once,
    runtime: Shared,
}

/// Whether a job is due, as [`crate::Decision`]. The list is complete.
#[derive(Debug)]
#[must_use = "a job that is due has begun"]
pub enum Decision {
    /// It is: this holds the lock, and the store knows that the run has begun.
    Due(DueRun),
    /// It is not: this run counts for the period.
    NotDue(LastRun),
    /// It is unknown. Nothing has begun.
    Unknown(UnknownRun),
}

impl Once {
    pub(super) fn new(once: crate::Once, runtime: Shared) -> Self {
        Self { once, runtime }
    }

    /// A run that has begun counts for the period, as [`crate::Once::at_most_once`].
    pub fn at_most_once(mut self) -> Self {
        self.once = self.once.at_most_once();
        self
    }

    /// Sets what to do if it is unknown whether the job has run, as [`crate::Once::if_unknown`].
    pub fn if_unknown(mut self, then: IfUnknown) -> Self {
        self.once = self.once.if_unknown(then);
        self
    }

    /// Acquires the lock, and begins the job if it is due, as [`crate::Once::begin`].
    ///
    /// # Errors
    /// As [`crate::Once::begin`]; `Config` in an async task.
    pub fn begin(self) -> Result<Decision, Error> {
        Ok(match self.runtime.wait(self.once.begin())?? {
            crate::Decision::Due(run) => Decision::Due(DueRun { run, runtime: self.runtime }),
            crate::Decision::NotDue(last) => Decision::NotDue(last),
            crate::Decision::Unknown(unknown) => Decision::Unknown(unknown),
        })
    }
}

/// A job that is due, as [`crate::DueRun`]. The client's thread renews its lock.
///
/// Dropping it releases the lock in the background, and leaves the run *started*, as a crash does.
#[derive(Debug)]
#[must_use = "dropping it leaves the run started, so that the next client makes another attempt"]
pub struct DueRun {
    run: crate::DueRun,
    runtime: Shared,
}

impl DueRun {
    /// The fencing token of the lock. Send it to the resource that the lock protects.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.run.guard().token()
    }

    /// Whether the job may still rely on the lock: work that takes long asks between its steps.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.run.guard().is_valid()
    }

    /// The number of this attempt, as [`crate::DueRun::attempt`].
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.run.attempt()
    }

    /// When the round began, as [`crate::DueRun::round`].
    #[must_use]
    pub fn round(&self) -> StoreTime {
        self.run.round()
    }

    /// Why it is unknown whether the job has already run, as [`crate::DueRun::doubt`].
    #[must_use]
    pub fn doubt(&self) -> Option<&Doubt> {
        self.run.doubt()
    }

    /// Records that the run succeeded, and releases the lock, as [`crate::DueRun::succeeded`].
    ///
    /// # Errors
    /// As [`crate::DueRun::succeeded`]; `Config` in an async task.
    pub fn succeeded(self) -> Result<(), Error> {
        self.runtime.wait(self.run.succeeded())?
    }

    /// Records that the run failed, and releases the lock, as [`crate::DueRun::failed`].
    ///
    /// # Errors
    /// As [`succeeded`](Self::succeeded).
    pub fn failed(self) -> Result<(), Error> {
        self.runtime.wait(self.run.failed())?
    }
}
