//! `client.lock(name).once_per(period)`: reads the last run, decides, and begins the next.

use std::time::Duration;

use super::{
    decision::{Rule, Verdict},
    doubt::UnknownRun,
    due_run::DueRun,
    last_run::LastRun,
};
use crate::{
    Error, ErrorKind, Guard, Lock, LockClient, LockName, Mode, Promise, RecordRead, StoreTime,
    client::calls::Backoff,
    tunables::{LONGEST_PERIOD, SHORTEST_PERIOD},
};

/// A job that runs at most once per period, on whichever machine. Made by [`Lock::once_per`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `begin`"]
pub struct Once {
    lock: Lock,
    rule: Rule,
    if_unknown: Option<IfUnknown>,
}

/// What to do if it is unknown whether the job has run within its period. The list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfUnknown {
    /// Run it: for jobs that may run twice.
    Run,
    /// Do not run it, and say so: [`Decision::Unknown`].
    Fail,
}

/// Whether a job is due. The list is complete.
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

impl Lock {
    /// Runs a job at most once per `period`, on whichever machine: the record of the lock's name
    /// remembers the last run.
    ///
    /// The first client that finds the job due begins a *round*. If the run fails, or ends without
    /// a word, the next client that asks makes another attempt in the same round. Once an attempt
    /// has succeeded, the job is due again a period after the *begin* of its round, less a tenth of
    /// the period and at most less an hour, so that a timer that fires a little early skips no day.
    /// If nobody asked for several periods, the next client that asks begins one round. Only the
    /// store's clock counts.
    ///
    /// `period` is the shortest time between two rounds, not a schedule: something else, such as
    /// cron, asks. A daily job that may catch up late takes a period of 12 h. Nothing else may
    /// write the record of this name.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use leasehold::Decision;
    /// # use lock_core as leasehold;
    /// # async fn send_the_report() -> Result<(), &'static str> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::Error> {
    /// # let client = lock_core::LockClient::new(std::sync::Arc::new(lock_core::Memory::new()));
    /// let report = client.lock("report").once_per(Duration::from_secs(86_400));
    /// match report.begin().await? {
    ///     // If the lock is lost, the report is not finished, and another client tries again.
    ///     Decision::Due(run) => match run.guard().while_valid(send_the_report()).await? {
    ///         Ok(()) => run.succeeded().await?,
    ///         Err(_) => run.failed().await?,
    ///     },
    ///     Decision::NotDue(last) => println!("{} ran it at {}", last.label, last.began),
    ///     Decision::Unknown(unknown) => println!("has it run? {}", unknown.why),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn once_per(self, period: Duration) -> Once {
        Once { lock: self, rule: Rule { period, at_most_once: false }, if_unknown: None }
    }
}

impl LockClient {
    /// The last run of a job ([`Lock::once_per`]); `None` if the store has no record of one.
    ///
    /// # Durations
    ///
    /// It ends within the client's `call_timeout`.
    ///
    /// # Errors
    ///
    /// As [`read_record`](Self::read_record); `Config` if the record is not that of a run.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn last_run<N>(&self, name: N) -> Result<Option<LastRun>, Error>
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        let name = name.try_into().map_err(Into::into)?;
        let read = self.read_record(&name).await?;
        last_of(&read).map_err(|error| error.on(&name))
    }
}

impl Once {
    /// The shortest period, 1 s.
    pub const SHORTEST_PERIOD: Duration = SHORTEST_PERIOD;
    /// The longest period, a year of 365.25 days.
    pub const LONGEST_PERIOD: Duration = LONGEST_PERIOD;

    /// A run that has begun counts for the period, whatever comes of it: for jobs that must not run
    /// twice, even after a failure. Default: a run that failed or did not end is tried again.
    pub fn at_most_once(mut self) -> Self {
        self.rule.at_most_once = true;
        self
    }

    /// Sets what to do if it is unknown whether the job has run within its period, and so accepts a
    /// store that may lose records ([`Guarantees::record`](crate::Guarantees::record)). Default:
    /// [`IfUnknown::Fail`], and such a store is refused.
    pub fn if_unknown(mut self, then: IfUnknown) -> Self {
        self.if_unknown = Some(then);
        self
    }

    /// Acquires the lock, and begins the job if it is due.
    ///
    /// # Guarantees
    ///
    /// If the store promises exclusion and records, at most one client runs the job at a time, and
    /// each period has at most one run that succeeds. If the answer is not
    /// [`Due`](Decision::Due), the lock is not held. A client that waits for the lock is a standby:
    /// it runs the job if the run before it failed.
    ///
    /// # Durations
    ///
    /// As [`Lock::acquire`], and up to three more calls. If the job is not due, the lock is not
    /// acquired at all.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a period that is not between 1 s and 1 year, or a lock that is
    /// [`shared`](Lock::shared) or has a minimum hold ([`at_least`](Lock::at_least)), which would
    /// keep the lock from other standbys; `Unsupported` if the store keeps no records, or may lose
    /// them and [`if_unknown`](Self::if_unknown) is not set; `Config` if the record is not that of
    /// a run; `Lost` or `NotHeld` if the lock was lost before the run began; otherwise those of
    /// [`Lock::acquire`] and [`Guard::write_record`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lock is released in the background. The run may then be
    /// recorded as begun.
    pub async fn begin(self) -> Result<Decision, Error> {
        if let Some(last) = self.not_due().await? {
            return Ok(Decision::NotDue(last));
        }
        let guard = self.lock.clone().acquire().await?;
        self.begin_with(guard).await
    }

    /// The run that counts for this period, if it is certain that there is one. This needs no lock.
    ///
    /// If the store cannot be reached, the answer is `None`: [`begin`](Self::begin) asks again.
    ///
    /// # Durations
    ///
    /// It ends within the client's `call_timeout`.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin), without those of an acquire.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn not_due(&self) -> Result<Option<LastRun>, Error> {
        let name = self.checked()?;
        let read = match self.lock.client().read_record(name).await {
            Ok(read) => Some(read),
            Err(error) if error.is_retryable() => None,
            Err(error) => return Err(error),
        };
        self.check_promise(name)?;
        let verdict = read.map(|read| self.verdict(&read, name)).transpose()?;
        Ok(match verdict {
            Some(Verdict::NotDue(last)) => Some(last),
            _ => None,
        })
    }

    /// As [`begin`](Self::begin), with the guard of a lock that the caller has acquired: for a
    /// caller that does something else between the two. If the job is not due, the guard is
    /// released.
    ///
    /// # Durations
    ///
    /// As [`begin`](Self::begin), without the acquire. A store that does not answer is asked again
    /// until the lease of the lock is over or the client's `call_timeout`, whichever is longer.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin); `InvalidInput` if the guard is that of another lock.
    ///
    /// # Cancel safety
    ///
    /// As [`begin`](Self::begin).
    pub async fn begin_with(self, guard: Guard) -> Result<Decision, Error> {
        let name = self.checked()?;
        if guard.name() != name || guard.mode() != Mode::Exclusive {
            let message = format!("the guard is that of lock {:?}, or of a reader", guard.name());
            return Err(Error::new(ErrorKind::InvalidInput, message).on(name));
        }
        let read = self.read(&guard).await?;
        self.check_promise(name)?;
        let (attempt, doubt) = match self.verdict(&read, name)? {
            Verdict::Due(attempt) => (attempt, None),
            Verdict::Unknown(unknown, attempt) if self.if_unknown == Some(IfUnknown::Run) => {
                (attempt, Some(unknown.why))
            }
            Verdict::NotDue(last) => return given_back(guard, Decision::NotDue(last)).await,
            Verdict::Unknown(unknown, _) => {
                return given_back(guard, Decision::Unknown(unknown)).await;
            }
        };
        let keep_for = self.rule.keep_for();
        DueRun::begin(guard, attempt, read.now, keep_for, doubt).await.map(Decision::Due)
    }

    /// When the job is due again after this run, if the run counts.
    #[must_use]
    pub fn due_again(&self, last: &LastRun) -> StoreTime {
        last.round + self.rule.distance()
    }

    /// The name, after a check of the options.
    fn checked(&self) -> Result<&LockName, Error> {
        let name = self.lock.checked()?;
        let refuse = |kind, message: String| Err(Error::new(kind, message).on(name));
        self.rule.check().map_err(|error| error.on(name))?;
        let wanted = &self.lock.wanted;
        if wanted.mode == Mode::Shared {
            let message = "a job that runs once per period needs an exclusive lock";
            return refuse(ErrorKind::InvalidInput, message.to_owned());
        }
        if let Some(span) = wanted.at_least {
            return refuse(
                ErrorKind::InvalidInput,
                format!(
                    "at_least {} must not be given for a job that runs once per period: the record keeps \
                     others from running it, and they would only wait for the lock",
                    humantime::format_duration(span)
                ),
            );
        }
        Ok(name)
    }

    /// Refuses a store that may lose the record, unless that is accepted. After the record was
    /// read: a store that keeps none says so itself, and there is nothing to accept.
    fn check_promise(&self, name: &LockName) -> Result<(), Error> {
        match &self.lock.handle.backend.guarantees().record {
            Promise::Withheld { why } if self.if_unknown.is_none() => {
                let message = format!(
                    "the store does not promise to keep the record of the last run: {why} (--if-unknown, \
                     in a program `if_unknown`, accepts that it may then be unknown whether the job has run)"
                );
                Err(Error::new(ErrorKind::Unsupported, message).on(name))
            }
            _ => Ok(()),
        }
    }

    fn verdict(&self, read: &RecordRead, name: &LockName) -> Result<Verdict, Error> {
        let last = last_of(read).map_err(|error| error.on(name))?;
        Ok(self.rule.decide(read, last))
    }

    /// Reads the record, and repeats this while the store may still answer in time.
    async fn read(&self, guard: &Guard) -> Result<RecordRead, Error> {
        let (state, client) = (self.lock.state(), self.lock.client());
        let limit = guard.grant().lease.max(state.options.call_timeout);
        let mut backoff = Backoff::until(state.env.now() + limit);
        loop {
            match client.read_record(guard.name()).await {
                Err(error) if error.is_retryable() && guard.is_valid() => {
                    if !backoff.pause(state).await {
                        return Err(error);
                    }
                }
                read => return read,
            }
        }
    }
}

fn last_of(read: &RecordRead) -> Result<Option<LastRun>, Error> {
    read.record.as_ref().map(LastRun::of).transpose()
}

/// Releases the lock of a job that does not run. If this fails, the lock ends with its lease.
async fn given_back(guard: Guard, decision: Decision) -> Result<Decision, Error> {
    let _ = guard.release().await;
    Ok(decision)
}
