//! A waiter: the handle of a place in a store's queue.

use async_trait::async_trait;

use crate::{Busy, Error, Grant, Quarantined};

/// The answer to [`Backend::enqueue`](crate::Backend::enqueue). There are no others: a wrapper must deal with each.
#[derive(Debug)]
pub enum Enqueued {
    /// The lock was free: no place was needed.
    Granted(Grant),
    /// The owner waits; the second part is the answer of the attempt that was made first.
    Waiting(Box<dyn Waiter>, Busy),
    /// The store grants nothing for now; no place was taken.
    Quarantined(Quarantined),
}

/// What the store tells a waiter. There is nothing else: a wrapper must deal with each.
#[derive(Debug)]
pub enum Signal {
    /// The waiter has the lock.
    Granted(Grant),
    /// Something changed: it is worth asking again.
    Recheck,
    /// The place is gone, for this reason; a new one is needed.
    Lost(String),
}

/// The handle of a place in the queue of one name, for one owner: used for one grant or one withdrawal.
///
/// The core asks again by [`try_acquire`](crate::Backend::try_acquire) with the place's owner, at the
/// latest after the `retry_after` of the last answer; that attempt is the place's heartbeat. When a
/// place has been granted, by push or by such an attempt, it is used up and its waiter is dropped.
/// Dropping a waiter costs no store traffic: without [`leave`](Waiter::leave) the place dies of its
/// missing heartbeat.
#[async_trait]
pub trait Waiter: std::fmt::Debug + Send {
    /// Waits for the next signal of the store.
    ///
    /// A store without push never answers: the core's polling is enough.
    ///
    /// *Errors*: none. If a subscription cannot be kept, the signal is [`Lost`](Signal::Lost) or
    /// [`Recheck`](Signal::Recheck).
    ///
    /// *Cancel safety*: dropping the future loses no signal.
    ///
    /// *Implementers*: after a reconnection answer `Recheck`, since a push may have been lost.
    async fn next(&mut self) -> Signal;

    /// Gives the place up, and releases the lock if it was granted meanwhile.
    ///
    /// *Errors*: the place or the grant may stay until its heartbeat or its claim window ends;
    /// the core then calls [`abandon`](crate::Backend::abandon).
    ///
    /// *Cancel safety*: the core runs it to its end.
    async fn leave(self: Box<Self>) -> Result<(), Error>;
}
