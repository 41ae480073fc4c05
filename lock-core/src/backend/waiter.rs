//! A waiter: the handle of an entry in the store's queue.

use std::future::pending;

use async_trait::async_trait;

use crate::{Busy, Error, Grant, Quarantined};

/// The answer to [`Backend::enqueue`](crate::Backend::enqueue). The list is complete: a wrapper
/// must handle each variant.
#[derive(Debug)]
pub enum Enqueued {
    /// The owner has the lock; no queue entry was needed.
    Granted(Grant),
    /// The owner has a queue entry. `Busy` is the answer to the attempt that `enqueue` made first.
    Waiting(Box<dyn Waiter>, Busy),
    /// The store grants nothing for now, and made no queue entry.
    Quarantined(Quarantined),
}

/// What the store pushes to a waiter. The list is complete: a wrapper must handle each variant.
#[derive(Debug)]
pub enum Signal {
    /// The waiter has the lock.
    Granted(Grant),
    /// Something changed; the core should poll now.
    Recheck,
    /// The queue entry is gone, for this reason. The core must make a new one.
    Lost(String),
}

/// The handle of one owner's entry in the queue of one lock. It ends with one grant or one
/// withdrawal.
///
/// The core polls by [`try_acquire`](crate::Backend::try_acquire) with the owner of the entry, at
/// the latest after the `retry_after` of the last answer. This attempt is the heartbeat of the
/// entry. When the owner is granted the lock, by a push or by such an attempt, the entry ends and
/// the core drops the waiter. Dropping a waiter sends nothing to the store: without
/// [`leave`](Waiter::leave) the entry expires when its heartbeats stop.
#[async_trait]
pub trait Waiter: std::fmt::Debug + Send {
    /// Waits for the next push of the store.
    ///
    /// # Guarantees
    ///
    /// A store without push never returns; the core's polling is enough.
    ///
    /// # Errors
    ///
    /// None. If the backend cannot keep its subscription, it returns [`Lost`](Signal::Lost) or
    /// [`Recheck`](Signal::Recheck).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no signal.
    ///
    /// # For implementers
    ///
    /// Return `Recheck` after a reconnection, because a push may have been lost.
    async fn next(&mut self) -> Signal;

    /// Removes the queue entry, and releases the lock if the owner was granted it meanwhile.
    ///
    /// # Errors
    ///
    /// After an error the entry may stay until its heartbeats are overdue, and a grant until its
    /// claim window ends. The core then calls [`abandon`](crate::Backend::abandon).
    ///
    /// # Cancel safety
    ///
    /// The core runs the call to its end.
    async fn leave(self: Box<Self>) -> Result<(), Error>;
}

/// The waiter of a store without a queue. It pushes nothing: the core polls.
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
