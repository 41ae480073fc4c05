//! The trait that a store implements, in the store's words: no policy lives here.

mod admin;
mod checks;
mod request;
mod waiter;

use std::{fmt::Debug, future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::{
    admin::{Cursor, Init, Listing, LockState, Page, StoreSettings},
    checks::{check_lease, check_record_version, check_span, check_token, whole_millis},
    request::{
        Attempt, Busy, Grant, Holder, LossReason, Mode, Quarantined, ReleaseOutcome, Renewal,
        Request,
    },
    waiter::{Enqueued, Signal, Waiter},
};
use crate::{Error, ErrorKind, FencingToken, Guarantees, Instant, LockName};

/// How a grant is given back.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ReleaseOptions<'a> {
    /// Keep the grant for this long instead of freeing it at once (a minimum hold).
    pub keep: Option<Duration>,
    /// The same process's next request, to be queued last, before the lock is handed over.
    pub next: Option<&'a Request>,
}

impl<'a> ReleaseOptions<'a> {
    /// A release at once, with no next request.
    #[must_use]
    pub const fn new() -> Self {
        Self { keep: None, next: None }
    }

    /// The same, which keeps the grant for this long, or frees it at once.
    #[must_use]
    pub fn with_keep(mut self, keep: impl Into<Option<Duration>>) -> Self {
        self.keep = keep.into();
        self
    }

    /// The same with this next request, or without one.
    #[must_use]
    pub fn with_next(mut self, next: impl Into<Option<&'a Request>>) -> Self {
        self.next = next.into();
        self
    }
}

/// The answer to a release.
#[derive(Debug)]
#[non_exhaustive]
pub struct Released {
    /// Whether the owner held it.
    pub outcome: ReleaseOutcome,
    /// The answer to [`ReleaseOptions::next`]; `None` where none was asked for, or the backend does not
    /// carry it and the core is to enqueue it itself.
    pub next: Option<Enqueued>,
}

impl Released {
    /// An answer with that to the next request.
    #[must_use]
    pub const fn new(outcome: ReleaseOutcome, next: Option<Enqueued>) -> Self {
        Self { outcome, next }
    }

    /// An answer that carries no next request.
    #[must_use]
    pub const fn plain(outcome: ReleaseOutcome) -> Self {
        Self { outcome, next: None }
    }
}

/// A store of locks.
///
/// The core owns policy: waiting, retry, renewal, clean-up, guards. A backend speaks its store's
/// protocol, one atomic step per method. Every method has a time limit of its own inside the
/// backend, so that it ends also when the store hangs.
///
/// *Implementers*: a wrapper forwards every method (`#![deny(clippy::missing_trait_methods)]`). A default here may
/// be slower than an own implementation, never weaker.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// A short word for the kind of store, such as `redis`.
    fn kind(&self) -> &'static str;

    /// A name of the store itself. A migration orders its two stores by it.
    ///
    /// *Guarantees*: all clients of one store get the same name, and no other store has it. It stays the same
    /// while the store keeps its locks, also over another address.
    ///
    /// *Errors*: `Unsupported` where the backend has none, as by default; otherwise as any call of the
    /// store.
    ///
    /// *Cancel safety*: it changes nothing.
    async fn identity(&self) -> Result<String, Error> {
        let refusal = Error::new(ErrorKind::Unsupported, "this store has no identity of its own");
        Err(refusal.at(self.kind(), "identity"))
    }

    /// Whether an attempt is answered in its first poll, as by a store in this process's memory. Default: `false`.
    ///
    /// If so, the core need not know which tasks are waiting for an answer.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// What the store promises in its present configuration, and under which assumptions.
    fn guarantees(&self) -> Arc<Guarantees>;

    /// Makes one atomic attempt to acquire.
    ///
    /// *Guarantees*: one holder at a time, and a token larger than every earlier one of the name and than the
    /// request's floor, minted in the same step. Where the store is fair and a live place waits, an attempt of an
    /// owner without a place is `Busy`. An attempt of the owner that
    /// holds the lock extends the lease like a renewal and keeps the token; it never shortens the
    /// lease, since it may be a late repeat. An attempt of an owner that was
    /// [abandoned](Backend::abandon) grants nothing.
    ///
    /// *Readers*: where [`Guarantees::shared`] is promised, a request of [`Mode::Shared`] joins other readers if no writer
    /// has a live place before it. The readers have a token above that of the last writer, and the lock is
    /// theirs until the last lease of them is over. A reader that has left holds nothing. The answer to a request of
    /// that mode may be an exclusive grant, too.
    ///
    /// *Durations*: the lease counts from the request's `sent`. The grant says which lease was set.
    ///
    /// *Errors*: `OutcomeUnknown` or `Timeout` if the request may have been carried out; the core
    /// repeats the same request or abandons it.
    ///
    /// *Cancel safety*: the core runs every call to its end.
    ///
    /// *Implementers*: if the backend repeats a request by itself and does not know that the first try was not
    /// carried out, it says so: by [`Grant::doubted`], and in place of `Busy` and `Quarantined` by
    /// `OutcomeUnknown` with [`Error::blocked_by`].
    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error>;

    /// Makes an attempt and, if it is refused, takes a place in the queue, in one atomic step.
    ///
    /// *Guarantees*: as [`try_acquire`](Backend::try_acquire). A repeat by the same owner keeps its
    /// place.
    ///
    /// *Durations, errors, cancel safety*: as there.
    ///
    /// *Implementers*: the default keeps no queue: its waiter leaves all to the core's polling.
    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        Ok(match self.try_acquire(request).await? {
            Attempt::Granted(grant) => Enqueued::Granted(grant),
            Attempt::Busy(busy) => Enqueued::Waiting(Box::new(Polling), busy),
            Attempt::Quarantined(quarantined) => Enqueued::Quarantined(quarantined),
        })
    }

    /// Makes sure that this owner holds nothing, waits for nothing, and never will.
    ///
    /// *Guarantees*: a grant or a place of the owner is gone. A late request of the owner, which the
    /// store reads after its client has given up, finds a tombstone or its own deadline, and gets
    /// neither the lock nor a place. After a release the call changes nothing but leaves the tombstone: so the
    /// core stops late requests of an attempt that it had repeated.
    ///
    /// *Errors*: the core repeats the call until the lease is over.
    ///
    /// *Cancel safety*: the core runs it to its end.
    async fn abandon(&self, request: &Request) -> Result<(), Error>;

    /// Renews a batch of grants, in one round trip where the store can.
    ///
    /// *Guarantees*: the answers stand in the order of `grants`. A grant that the store no longer has
    /// is `Lost` and stays gone. A failure to reach the store is `Unknown`, never `Lost`. A renewal
    /// of a grant that was released with a [`keep`](ReleaseOptions::keep) is late, and is `Lost` too.
    ///
    /// *Durations*: each grant asks for its own `lease` anew. `sent` is an instant before the call;
    /// an answer's `from` is `sent` or earlier.
    ///
    /// *Errors*: one per grant, in [`Renewal::Unknown`]; the core asks again until the validity ends.
    ///
    /// *Cancel safety*: the core runs it to its end.
    ///
    /// *Implementers*: where a lock is kept on several nodes, a loss frees none of them: the holder learns of it
    /// only afterwards, and the other nodes keep the next holder out until then.
    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal>;

    /// Gives a grant back, or keeps it for a last while.
    ///
    /// *Guarantees*: only this owner's grant is touched. If a later owner holds the lock, the call changes
    /// nothing and answers `NotHeld`. A repeat is harmless.
    ///
    /// *Durations*: a [`keep`](ReleaseOptions::keep) counts from the moment in which the store carries the release
    /// out. The core asks for none with a shared grant.
    ///
    /// *Readers*: one that releases leaves the others alone. When the last one has left, the lock is free.
    ///
    /// *Errors*: the core repeats the call after `OutcomeUnknown`, `Timeout` and `Unavailable`. An error speaks of
    /// the grant: after any error it is unknown whether [`next`](ReleaseOptions::next) has got a place.
    ///
    /// *Cancel safety*: the core runs it to its end.
    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error>;

    /// Lifts the stored token of a held grant to `token`, if that is larger.
    ///
    /// *Guarantees*: later grants of the name have tokens above it. Renewal keeps it.
    ///
    /// *Errors*: `NotHeld` if the grant is gone; `InvalidInput` if `token` leads the store's clock by
    /// more than the longest lease; `Unsupported` where the store cannot, as by default.
    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let _ = token;
        let refusal = Error::new(ErrorKind::Unsupported, "this store cannot raise a token");
        Err(refusal.at(self.kind(), "raise").on(&grant.name))
    }

    /// Reads what the store knows of a name; `None` if nothing.
    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error>;

    /// Lists held names in parts: `None` starts, a page's `next` goes on.
    ///
    /// *Guarantees*: a name that is held from the start to the end of a listing is in it. It may be in two parts, where
    /// the store moves its keys meanwhile.
    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error>;

    /// Frees a name, whichever client holds it, or whichever clients share it. Each former holder learns of it at its
    /// next renewal.
    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error>;

    /// Creates what the store needs, or changes its settings.
    ///
    /// *Guarantees*: a changed longest lease takes effect only after the old one has passed, unless
    /// `first_use` is given. After `restored` nothing is granted until every lease that may be held
    /// is over.
    ///
    /// *Errors*: `Unsupported` for a setting that the store does not have, for `restored` where the
    /// store cannot hold grants back, and for `reset_tokens` where it cannot set its tokens back;
    /// `InvalidInput` for a longest lease out of its range.
    async fn init(&self, init: &Init) -> Result<StoreSettings, Error>;

    /// The difference between the store's wall clock and this process's, in microseconds (positive
    /// when the store is ahead); `None` where the store uses this machine's clock.
    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error>;

    /// The highest token that the store remembers, of all names; `None` where the store does not tell. At
    /// [`FencingToken::MAX`] tokens are used up, and nothing is granted.
    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        Ok(None)
    }

    /// What an operator should know of the store as it is now: a sentence each, of what slows it down or will soon stop it.
    /// Asked by `leasehold check`. By default there is nothing.
    async fn warnings(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Ends connections and background work, after all guards are gone.
    async fn close(&self);
}

/// The waiter of a store without a queue: the core's polling does the work.
#[derive(Debug)]
pub(crate) struct Polling;

#[async_trait]
impl Waiter for Polling {
    async fn next(&mut self) -> Signal {
        pending().await
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
