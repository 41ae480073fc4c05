//! The trait [`Backend`], which a store implements, and its requests and answers. Policy is in the
//! client.

mod admin;
mod checks;
mod record;
mod release;
mod request;
mod waiter;

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;

use self::admin::grant_of_holder;
pub(crate) use self::waiter::Polling;
pub use self::{
    admin::{Cursor, Init, Listing, LockState, Page, StoreSettings},
    checks::{check_lease, check_record_version, check_span, check_token, whole_millis},
    record::{Record, RecordRead, RecordWrite, WriteOutcome},
    release::{ReleaseOptions, Released},
    request::{
        Attempt, Busy, Grant, Holder, LossReason, Mode, Quarantined, ReleaseOutcome, Renewal,
        Request,
    },
    waiter::{Enqueued, Signal, Waiter},
};
use crate::{Error, ErrorKind, FencingToken, Guarantees, Instant, LockName};

/// A store of locks.
///
/// A backend speaks the protocol of one store: each method is one atomic step. The core has all
/// policy: waiting, retries, renewal, clean-up and guards.
///
/// # Durations
///
/// The backend gives every call a time limit of its own, so that the call ends even if the store
/// hangs.
///
/// # Cancel safety
///
/// The core runs attempts, enqueues, [`abandon`](Backend::abandon), [`renew`](Backend::renew),
/// [`release`](Backend::release), [`reown`](Backend::reown) and
/// [`write_record`](Backend::write_record) to their end, even if the caller goes away. Any other
/// call may be dropped at any time.
///
/// # For implementers
///
/// A wrapper forwards every method (`#![deny(clippy::missing_trait_methods)]`). A default method
/// may be slower than your own, never weaker.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// A short word for the kind of store, such as `redis`.
    fn kind(&self) -> &'static str;

    /// Returns the name of this store, by which [`all`](crate::all()) and a migration order two
    /// stores.
    ///
    /// # Guarantees
    ///
    /// All clients of one store get the same name, and no other store has it. It stays the same
    /// while the store keeps its locks, even over another address. The call changes nothing.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the backend has no name, as by default; otherwise those of the store.
    async fn identity(&self) -> Result<String, Error> {
        let refusal = Error::new(ErrorKind::Unsupported, "this store has no identity of its own");
        Err(refusal.at(self.kind(), "identity"))
    }

    /// Whether the first poll of an attempt always returns the answer, as in a store in this
    /// process's memory. Default: `false`.
    ///
    /// If so, the core need not record which tasks wait for an answer.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Whether this client knows that others held the lock, or waited for it, when it last called
    /// the store for this name. Default: `false`.
    ///
    /// If so, a client that waits for the lock makes its first attempt by
    /// [`enqueue`](Backend::enqueue), and not by [`try_acquire`](Backend::try_acquire) before that.
    fn was_busy(&self, _name: &LockName) -> bool {
        false
    }

    /// What the store promises with its present settings, and under which assumptions.
    fn guarantees(&self) -> Arc<Guarantees>;

    /// Makes one atomic attempt to acquire the lock.
    ///
    /// # Guarantees
    ///
    /// One holder at a time. The store makes the token in the same step. It is larger than every
    /// earlier token of the name, and larger than the request's floor.
    /// - If the store is fair and a live queue entry waits, an attempt of an owner without an entry
    ///   is `Busy`.
    /// - An attempt of the owner that holds the lock extends the lease like a renewal, and keeps
    ///   the token. It never shortens the lease, because it may be a late repeat.
    /// - An attempt of an [abandoned](Backend::abandon) owner gets no grant.
    ///
    /// # Readers
    ///
    /// If the store promises [`Guarantees::shared`], a request of [`Mode::Shared`] joins other
    /// readers unless a writer has a live queue entry before it. The token of the readers is above
    /// that of the last writer. They hold the lock until the last of their leases ends. A reader
    /// that has released holds nothing. The store may also answer such a request with an exclusive
    /// grant.
    ///
    /// # Durations
    ///
    /// The lease counts from the request's `sent`. The grant says which lease the store has set.
    ///
    /// # Errors
    ///
    /// `OutcomeUnknown` or `Timeout` if the store may have carried out the request. The core then
    /// repeats the same request or abandons its owner.
    ///
    /// # For implementers
    ///
    /// If the backend repeats a request itself and cannot exclude that the first try was carried
    /// out, it marks the grant with [`Grant::doubted`]. Instead of `Busy` and `Quarantined` it then
    /// returns `OutcomeUnknown` with [`Error::blocked_by`].
    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error>;

    /// Makes an attempt and, if it is refused, adds an entry to the queue, in one atomic step.
    ///
    /// # Guarantees
    ///
    /// As [`try_acquire`](Backend::try_acquire). A repeat by the same owner keeps its place in the
    /// queue.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Backend::try_acquire).
    ///
    /// # For implementers
    ///
    /// The default keeps no queue. Its waiter pushes nothing, so the core polls.
    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        Ok(match self.try_acquire(request).await? {
            Attempt::Granted(grant) => Enqueued::Granted(grant),
            Attempt::Busy(busy) => Enqueued::Waiting(Box::new(Polling), busy),
            Attempt::Quarantined(quarantined) => Enqueued::Quarantined(quarantined),
        })
    }

    /// Makes sure that this owner holds nothing, waits for nothing, and never will.
    ///
    /// # Guarantees
    ///
    /// A grant or queue entry of the owner is gone. A late request of the owner, which the store
    /// carries out after its client has given it up, finds a tombstone or its own deadline, and
    /// gets neither the lock nor a queue entry. After a release the call only leaves the tombstone:
    /// this is how the core stops late requests of an attempt that it had repeated.
    ///
    /// # Errors
    ///
    /// The core repeats the call until the lease is over.
    async fn abandon(&self, request: &Request) -> Result<(), Error>;

    /// Renews a batch of grants, in one round trip if the store can.
    ///
    /// # Guarantees
    ///
    /// The answers are in the order of `grants`. A grant that the store no longer has is `Lost`,
    /// and stays gone. So is a grant that was released with a [`keep`](ReleaseOptions::keep),
    /// because its renewal is late. If the store cannot be reached, the answer is `Unknown`, never
    /// `Lost`.
    ///
    /// # Durations
    ///
    /// Each grant asks for its full `lease` again. `sent` is an instant before the call. The `from`
    /// of an answer is `sent` or earlier.
    ///
    /// # Errors
    ///
    /// One per grant, in [`Renewal::Unknown`]. The core tries again until the validity ends.
    ///
    /// # For implementers
    ///
    /// If a lock is kept on several nodes, a loss frees it on none of them. The holder learns of
    /// the loss only afterwards, and until then the other nodes keep the next holder out.
    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal>;

    /// Releases a grant, or keeps it for the rest of a minimum hold.
    ///
    /// # Guarantees
    ///
    /// The call changes only this owner's grant. If a later owner holds the lock, it changes
    /// nothing and answers `NotHeld`. A repeat is harmless.
    ///
    /// # Readers
    ///
    /// The release of a reader leaves the other readers alone. After the last one the lock is free.
    ///
    /// # Durations
    ///
    /// A [`keep`](ReleaseOptions::keep) counts from the moment when the store carries out the
    /// release. The core sets none for a shared grant.
    ///
    /// # Errors
    ///
    /// The core repeats the call after `OutcomeUnknown`, `Timeout` and `Unavailable`. An error is
    /// about the grant: after any error it is unknown whether [`next`](ReleaseOptions::next) has a
    /// queue entry.
    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error>;

    /// Raises the stored token of a held grant to `token`, if that is larger.
    ///
    /// # Guarantees
    ///
    /// Later grants of the name have larger tokens. Renewals keep the raised token.
    ///
    /// # Errors
    ///
    /// `NotHeld` if the grant is gone; `InvalidInput` if `token` leads the store's clock by more
    /// than the longest lease; `Unsupported` if the store cannot do it, as by default.
    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let _ = token;
        let refusal = Error::new(ErrorKind::Unsupported, "this store cannot raise a token");
        Err(refusal.at(self.kind(), "raise").on(&grant.name))
    }

    /// Gives a held lock to a new owner: `request` has its id, label and lease.
    ///
    /// # Guarantees
    ///
    /// It is one atomic step. If the owner of `grant` holds the lock alone, with the token of
    /// `grant`, then the owner of `request` holds it from now on, with the same token and with the
    /// lease of `request`. Entries in the queue stay.
    /// - `None` if the lock is free, kept for a minimum hold, shared, or held with another owner or
    ///   token. The call then changes nothing. So only one of two calls with the same grant
    ///   succeeds.
    /// - A repeat by the new owner extends the lease like a renewal, and never shortens it.
    /// - An [abandoned](Backend::abandon) owner gets nothing.
    ///
    /// # Durations
    ///
    /// The lease counts from the request's `sent`.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the store cannot do it, as by default; `Unavailable` while the store is in
    /// quarantine, because it may have lost the call before; `OutcomeUnknown` or `Timeout` if it
    /// may have carried out the call. The core then repeats the same call, or abandons the new
    /// owner.
    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        let _ = request;
        let refusal = Error::new(ErrorKind::Unsupported, "this store hands no held lock over");
        Err(refusal.at(self.kind(), "reown").on(&grant.name))
    }

    /// Reads the record of a name: a small value that outlives the lock.
    ///
    /// # Guarantees
    ///
    /// The answer has the last write that was answered before the call, or a later one. It changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the store keeps no records, as by default; otherwise those of the store.
    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        let refusal = Error::new(ErrorKind::Unsupported, "this store keeps no records");
        Err(refusal.at(self.kind(), "read-record").on(name))
    }

    /// Writes the record of a name, if this grant holds the lock.
    ///
    /// # Guarantees
    ///
    /// The store checks in the same atomic step that the grant holds the lock. A comparison of
    /// tokens is not enough: the next holder may have read the record, and not written it yet.
    /// - A grant that was released, also with a [`keep`](ReleaseOptions::keep), has expired or was
    ///   taken by force changes nothing: `NotHeld`.
    /// - If the record is of the same grant and its [`number`](RecordWrite::number) is as high or
    ///   higher, this is a repeat or a late request. It changes nothing: `Written`.
    /// - The record outlives the release of the lock, and what [`Guarantees::record`] says.
    ///
    /// # Durations
    ///
    /// The store keeps the record for [`keep_for`](RecordWrite::keep_for) at least, on its own
    /// clock. Later it may forget the record.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the store keeps no records, as by default; `OutcomeUnknown` or `Timeout` if
    /// the store may have carried out the write. The core repeats the same write.
    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let _ = write;
        let refusal = Error::new(ErrorKind::Unsupported, "this store keeps no records");
        Err(refusal.at(self.kind(), "write-record").on(&grant.name))
    }

    /// Reads the state of a lock; `None` if the store knows nothing of the name.
    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error>;

    /// Lists held locks, a page at a time: `None` asks for the first page, [`Page::next`] for the
    /// next one.
    ///
    /// # Guarantees
    ///
    /// A lock that is held from the start to the end of the listing is in it. It may be on two
    /// pages if the store moves its keys meanwhile.
    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error>;

    /// Frees a lock, no matter which clients hold or share it. Each former holder learns of it at
    /// its next renewal.
    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error>;

    /// Frees a lock if its holder has this token, and changes nothing otherwise.
    ///
    /// # Guarantees
    ///
    /// `Released` if the grant with this token is gone by this call. If another grant holds the
    /// lock, also one that came while the call was under way, that one stays: `NotHeld`.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the store cannot tell this grant from others: readers share the lock, its
    /// holder is a client of another library, or the store keeps the lock for a minimum hold.
    ///
    /// # For implementers
    ///
    /// The default reads the holder and releases in its place. The store frees the lock only if
    /// this owner still holds it, and no later grant has the same owner.
    async fn force_release_if(
        &self,
        name: &LockName,
        token: FencingToken,
    ) -> Result<ReleaseOutcome, Error> {
        let Some(grant) = grant_of_holder(self.inspect(name).await?, token)? else {
            return Ok(ReleaseOutcome::NotHeld);
        };
        Ok(self.release(&grant, ReleaseOptions::new()).await?.outcome)
    }

    /// The quarantine of the store, if one runs now, or if the next attempt begins one. This call
    /// changes nothing, and begins none.
    ///
    /// Default: none, for a store that needs no quarantine.
    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        Ok(None)
    }

    /// Creates what the store needs, or changes its settings.
    ///
    /// # Guarantees
    ///
    /// A new longest lease takes effect only after the old one has passed, unless `first_use` is
    /// set. After `restored` the store grants nothing until every lease that may be held is over.
    /// `records_complete` changes only the [`complete_since`](RecordRead::complete_since) of later
    /// reads.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a setting that the store does not have, for `restored` if the store cannot
    /// hold grants back, and for `reset_tokens` if it cannot set its tokens back; `InvalidInput`
    /// for a longest lease out of range.
    async fn init(&self, init: &Init) -> Result<StoreSettings, Error>;

    /// The store's wall clock minus this process's, in microseconds: positive if the store is
    /// ahead. `None` if the store uses the clock of this machine.
    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error>;

    /// The highest token that the store remembers, of all names; `None` if the store does not know,
    /// as by default.
    ///
    /// At [`FencingToken::MAX`] the tokens are used up, and the store grants nothing.
    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        Ok(None)
    }

    /// What an operator should know about the store now, one sentence each: what slows it down, or
    /// will soon stop it.
    ///
    /// `leasehold check` shows them. Default: none.
    async fn warnings(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Ends connections and background work. The core calls it after all guards are gone.
    async fn close(&self);
}
