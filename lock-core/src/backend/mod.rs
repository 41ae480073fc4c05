//! The trait that a store implements, in the store's words: no policy lives here.

mod operate;
mod request;
mod turn;

use std::{fmt::Debug, future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::{
    operate::{Cursor, Init, LockState, Page, StoreSettings},
    request::{
        Attempt, Busy, Grant, Holder, LossReason, Mode, Outcome, Quarantined, Renewal, Request,
        check_lease, check_token,
    },
    turn::{Enqueued, Signal, Turn},
};
use crate::{Error, ErrorKind, FencingToken, Guarantees, Instant, LockName};

/// How a grant is given back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Release<'a> {
    /// Keep the grant for this long instead of freeing it at once (a minimum hold).
    pub keep: Option<Duration>,
    /// The same process's next request, to be queued last, before the lock is handed over.
    pub next: Option<&'a Request>,
}

/// The answer to a release.
#[derive(Debug)]
pub struct Released {
    /// Whether the owner held it.
    pub outcome: Outcome,
    /// The answer to [`Release::next`]; `None` where none was asked for, or the backend does not
    /// carry it and the core is to enqueue it itself.
    pub next: Option<Enqueued>,
}

impl Released {
    /// An answer that carries no next request.
    #[must_use]
    pub const fn plain(outcome: Outcome) -> Self {
        Self { outcome, next: None }
    }
}

/// A store of locks.
///
/// The core owns policy: waiting, retry, renewal, clean-up, guards. A backend speaks its store's
/// protocol, one atomic step per method. Every method has a time limit of its own inside the
/// backend, so that it ends also when the store hangs.
///
/// Wrappers must forward every method (`#![deny(clippy::missing_trait_methods)]`). A default here may
/// be slower than an own implementation, never weaker.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// A short word for the kind of store, such as `redis`.
    fn kind(&self) -> &'static str;

    /// A name of the store itself, the same for every client of it and different for every other store.
    ///
    /// *Guarantees*: it stays the same while the store keeps its locks; two addresses of one store give
    /// one identity. A migration orders its two stores by it.
    ///
    /// *Errors*: `Unsupported` where the backend has none, as by default; otherwise as a call of the
    /// store.
    ///
    /// *Cancel safety*: it changes nothing.
    async fn identity(&self) -> Result<String, Error> {
        let refusal = Error::new(ErrorKind::Unsupported, "this store has no identity of its own");
        Err(refusal.at(self.kind(), "identity"))
    }

    /// Whether an attempt is answered in its first poll, as by a store in this process's memory: the core then need
    /// not know which tasks are waiting for an answer. Default: `false`.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// What holds, in the present configuration and under which assumptions.
    fn guarantees(&self) -> Arc<Guarantees>;

    /// Makes one atomic attempt to acquire.
    ///
    /// *Guarantees*: exclusion, and a token larger than every earlier one of the name and than the
    /// request's floor, minted in the same step. While a live place waits, an attempt of an owner
    /// without a place is `Busy` (no barging), where the store is fair. An attempt of the owner that
    /// holds the lock extends the lease like a renewal and keeps the token; it never shortens the
    /// lease, since it may be a late repeat. An attempt of an owner that was
    /// [abandoned](Backend::abandon) grants nothing.
    ///
    /// *Durations*: the lease counts from the request's `sent`; the grant says which lease was set.
    ///
    /// *Errors*: `OutcomeUnknown` or `Timeout` when the request may have been carried out; the core
    /// repeats the same request or abandons it. A backend that repeats a request by itself, where it does not know that
    /// the first try was not carried out, says so: by [`Grant::doubted`], and in place of `Busy` and `Quarantined` by
    /// `OutcomeUnknown` with [`Error::blocked_by`].
    ///
    /// *Cancel safety*: the core runs every call to its end.
    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error>;

    /// Makes an attempt and, if it is refused, takes a place in the queue, in one atomic step.
    ///
    /// *Guarantees*: as [`try_acquire`](Backend::try_acquire); a repeat by the same owner keeps its
    /// place.
    ///
    /// *Errors*: as there.
    ///
    /// *Implementers*: the default keeps no queue: its place is only a promise to poll.
    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        Ok(match self.try_acquire(request).await? {
            Attempt::Granted(grant) => Enqueued::Granted(grant),
            Attempt::Busy(busy) => Enqueued::Waiting(Box::new(Polling), busy),
            Attempt::Quarantined(quarantined) => Enqueued::Quarantined(quarantined),
        })
    }

    /// Makes sure that this owner holds nothing, waits for nothing, and never will.
    ///
    /// *Guarantees*: a grant or a place of the owner's is gone, and a late *ghost* of the attempt (the
    /// store reads it after its client has given up) finds a tombstone or its own deadline, and gets
    /// neither the lock nor a place. After a release it changes nothing but leaves the tombstone: the
    /// core then stops ghosts of an attempt that it had repeated.
    ///
    /// *Errors*: the core repeats the call until the lease is over.
    async fn abandon(&self, request: &Request) -> Result<(), Error>;

    /// Renews a batch of grants, in one round trip where the store can.
    ///
    /// *Guarantees*: the answers stand in the order of `grants`. A grant that the store no longer has
    /// is `Lost` and stays gone. A failure to reach the store is `Unknown`, never `Lost`. A renewal
    /// of a grant that was released with a [`keep`](Release::keep) is late, and is `Lost` too.
    ///
    /// *Implementers*: where a lock is kept in several places, a loss frees none of them: the holder is
    /// told only afterwards, and the rest keeps others out until then.
    ///
    /// *Durations*: each grant asks for its own `lease` anew. `sent` is an instant before the call;
    /// an answer's `from` is `sent` or earlier.
    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal>;

    /// Gives a grant back, or keeps it for a last while.
    ///
    /// *Guarantees*: only this owner's grant is touched; releasing what a later owner holds changes
    /// nothing and answers `NotHeld`. A repeat is harmless.
    ///
    /// *Errors*: `OutcomeUnknown`, `Timeout` and `Unavailable` are repeated by the core. They tell of the
    /// grant: whether [`next`](Release::next) has got a place is not known after any error.
    async fn release(&self, grant: &Grant, how: Release<'_>) -> Result<Released, Error>;

    /// Lifts the stored token of a held grant to `token`, if that is larger.
    ///
    /// *Guarantees*: later grants of the name have tokens above it. Renewal keeps it.
    ///
    /// *Errors*: `NotHeld` if the grant is gone; `InvalidInput` if `token` leads the store's clock by
    /// more than the longest lease.
    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let _ = token;
        let refusal = Error::new(ErrorKind::Unsupported, "this store cannot raise a token");
        Err(refusal.at(self.kind(), "raise").on(&grant.name))
    }

    /// What the store knows of a name; `None` if nothing.
    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error>;

    /// Lists held names in parts: `None` starts, a page's `next` goes on.
    ///
    /// *Guarantees*: a name that is held from the start to the end of a listing is in it.
    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error>;

    /// Frees a name whoever holds it. Its former holder learns of it at its next renewal.
    async fn force_release(&self, name: &LockName) -> Result<Outcome, Error>;

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

    /// The highest token that the store remembers, of all names; `None` where it does not tell. At
    /// [`FencingToken::MAX`] tokens are used up, and nothing is granted.
    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        Ok(None)
    }

    /// Ends connections and background work, after all guards are gone.
    async fn close(&self);
}

/// The place of a store without a queue: the core's polling does the work.
#[derive(Debug)]
struct Polling;

#[async_trait]
impl Turn for Polling {
    async fn next(&mut self) -> Signal {
        pending().await
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
