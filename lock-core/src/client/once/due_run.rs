//! A run that has begun: its lock, and how it tells the store that it has ended.

use std::time::Duration;

use super::{
    decision::Attempt,
    doubt::Doubt,
    last_run::{RunState, value_of},
};
use crate::{Error, Guard, StoreTime, client::calls::Backoff};

/// A job that is due. It holds the lock, and the store knows that the run has begun.
///
/// Dropping it releases the lock and leaves the run *started*, as a crash does: the next client
/// that asks makes the next attempt, unless a start counts
/// ([`Once::at_most_once`](crate::Once::at_most_once)).
#[derive(Debug)]
#[must_use = "dropping it leaves the run started, so that the next client makes another attempt"]
pub struct DueRun {
    guard: Guard,
    attempt: Attempt,
    began: StoreTime,
    keep_for: Duration,
    doubt: Option<Doubt>,
}

impl DueRun {
    /// Tells the store that an attempt begins.
    pub(super) async fn begin(
        guard: Guard,
        attempt: Attempt,
        began: StoreTime,
        keep_for: Duration,
        doubt: Option<Doubt>,
    ) -> Result<Self, Error> {
        let run = Self { guard, attempt, began, keep_for, doubt };
        run.write(RunState::Started, None).await?;
        Ok(run)
    }

    /// The lock under which the job runs.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The number of this attempt: 1 for the first of a round, more if the last one failed or did
    /// not end.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt.1
    }

    /// When the round began, on the store's clock: when the job was first found due. All attempts
    /// of a round have the same time, so it is a key for what the round has written.
    #[must_use]
    pub fn round(&self) -> StoreTime {
        self.attempt.0
    }

    /// Why it is unknown whether the job has already run in this period, if it is. It runs because
    /// of [`IfUnknown::Run`](crate::IfUnknown::Run).
    #[must_use]
    pub fn doubt(&self) -> Option<&Doubt> {
        self.doubt.as_ref()
    }

    /// Records that the run succeeded, and releases the lock. The job is then due again a period
    /// after the begin of its round.
    ///
    /// # Durations
    ///
    /// While the store does not answer, the client repeats the write, until the lease of the lock
    /// is over or the client's `call_timeout`, whichever is longer; and then the release, as
    /// [`Guard::release`].
    ///
    /// # Errors
    ///
    /// As [`Guard::write_record`]. The run then stays *started*, unless the error is `Timeout` or
    /// `OutcomeUnknown`. A failed release is no error: the lock is free when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it is unknown whether the run is recorded, and the lock is
    /// released in the background.
    pub async fn succeeded(self) -> Result<(), Error> {
        self.end(RunState::Done, None).await
    }

    /// Records that the run failed, and releases the lock. The next client that asks makes the next
    /// attempt of the round.
    ///
    /// # Errors
    ///
    /// As [`succeeded`](Self::succeeded); also the durations and the cancel safety.
    pub async fn failed(self) -> Result<(), Error> {
        self.end(RunState::Failed, None).await
    }

    /// Records the exit code of a command that ran, and releases the lock: it succeeded if the code
    /// is 0.
    ///
    /// # Errors
    ///
    /// As [`succeeded`](Self::succeeded); also the durations and the cancel safety.
    pub async fn exited(self, code: u8) -> Result<(), Error> {
        let state = if code == 0 { RunState::Done } else { RunState::Failed };
        self.end(state, Some(code)).await
    }

    async fn end(self, state: RunState, exit_code: Option<u8>) -> Result<(), Error> {
        self.write(state, exit_code).await?;
        // The run is recorded, and nothing else runs under this lock.
        let _ = self.guard.release().await;
        Ok(())
    }

    /// Writes the record, and repeats this while the store may still answer in time.
    async fn write(&self, state: RunState, exit_code: Option<u8>) -> Result<(), Error> {
        let client = self.guard.state();
        let label = &client.options.label;
        let value = value_of(state, self.attempt, self.began, exit_code, label);
        let limit = self.guard.grant().lease.max(client.options.call_timeout);
        let mut backoff = Backoff::until(client.env.now() + limit);
        loop {
            match self.guard.write_record(value.as_str(), self.keep_for).await {
                Err(error) if error.is_retryable() && self.guard.is_valid() => {
                    if !backoff.pause(&client).await {
                        return Err(error);
                    }
                }
                written => return written,
            }
        }
    }
}
