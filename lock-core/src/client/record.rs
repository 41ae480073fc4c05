//! The record of a name: read by any client, written by the holder of the lock.

use std::{sync::Arc, time::Duration};

use super::{
    calls::{Call, after_write, check, lose, write_record},
    guard::{Guard, lost_error},
    lock_client::LockClient,
    state::{ClientState, Held},
};
use crate::{Error, ErrorKind, LockName, LossReason, Mode, RecordRead, RecordWrite, WriteOutcome};

impl LockClient {
    /// Reads the record of a name: a small value that outlives the lock. See
    /// [`Guard::write_record`].
    ///
    /// A holder that reads and then writes loses no update: the store refuses the write if another
    /// client may have written in between.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::Error> {
    /// # let client = lock_core::LockClient::new(std::sync::Arc::new(lock_core::Memory::new()));
    /// const DAY: Duration = Duration::from_secs(86_400);
    /// let guard = client.lock("nightly").acquire().await?;
    /// let read = client.read_record("nightly").await?;
    /// let done = read.record.is_some_and(|last| read.now.since(last.written) < DAY / 2);
    /// if !done {
    ///     println!("nothing has run in the last 12 hours");
    ///     guard.write_record("done", 7 * DAY).await?;
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Durations
    ///
    /// It ends within the client's `call_timeout`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name; `Unsupported` if the store keeps no records; `Timeout`
    /// after the client's `call_timeout`; `Config` if the client is closed; otherwise those of the
    /// store.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn read_record<N>(&self, name: N) -> Result<RecordRead, Error>
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        let name = name.try_into().map_err(Into::into)?;
        let call = self.within(self.backend().read_record(&name)).await;
        call.map_err(|error| error.on(&name))
    }
}

impl Guard {
    /// Writes the record of this lock's name: a small value that outlives the lock.
    ///
    /// # Guarantees
    ///
    /// The store writes only if this guard's grant holds the lock at that moment. So a former
    /// holder cannot replace what a later one has read or written. Of two writes of one guard, the
    /// one that was begun later counts, also if the earlier one reaches the store last. The record
    /// stays after the release and after a crash. What may be lost is in
    /// [`Guarantees::record`](crate::Guarantees::record).
    ///
    /// # Durations
    ///
    /// It ends within the client's `call_timeout`. Until then it repeats a write without an answer,
    /// while the lock is valid. The store keeps the record for `keep_for` at least, and may then
    /// forget it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value of more than 1024 bytes, a `keep_for` that is not between 1 s and
    /// 10 years, or a shared lock; `Unsupported` if the store keeps no records; `Lost` if the lock
    /// was lost before; `NotHeld` if the store no longer had it: the guard is then lost. `Timeout`
    /// and `OutcomeUnknown` if the store may have written the record, or still write it while the
    /// lock is held; `Config` if the client is closed; otherwise those of the store.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the write goes on in the background.
    pub async fn write_record(
        &self,
        value: impl Into<Vec<u8>>,
        keep_for: Duration,
    ) -> Result<(), Error> {
        write_held(&self.state(), self.held(), value, keep_for).await
    }
}

/// As [`Guard::write_record`], for a lock that a guard or a monitor has.
pub(super) async fn write_held(
    state: &Arc<ClientState>,
    held: &Arc<Held>,
    value: impl Into<Vec<u8>>,
    keep_for: Duration,
) -> Result<(), Error> {
    let name = &held.grant.name;
    let write = RecordWrite::new(value, keep_for).map_err(|error| error.on(name))?;
    if held.grant.mode == Mode::Shared {
        let message = "a reader cannot write the record; the lock must be exclusive";
        return Err(Error::new(ErrorKind::InvalidInput, message).on(name));
    }
    if !check(state, held) {
        return Err(lost_error(held, "the lock was lost before the record was written"));
    }
    let _in_flight = ClientState::begin(&**state)?;
    let write = write.with_number(held.next_record_write());
    let limit = state.options.call_timeout;
    let end = state.env.now() + limit;
    let work = write_record(Arc::clone(state), Arc::clone(held), write, end);
    match Call::new(state, work, after_write).within(limit).await {
        Some(Ok(WriteOutcome::Written)) => Ok(()),
        Some(Ok(WriteOutcome::NotHeld)) => {
            lose(state, held, LossReason::Gone);
            let message = "the store no longer had the lock when its record was written";
            Err(Error::new(ErrorKind::NotHeld, message).on(name))
        }
        Some(Err(error)) => Err(error.on(name)),
        None => {
            let limit = humantime::format_duration(limit);
            let message = format!("no answer to the write of the record within {limit}");
            Err(Error::new(ErrorKind::Timeout, message).on(name))
        }
    }
}
