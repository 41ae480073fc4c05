//! A waiter with a place in a table of places, and what a client knows of its own.

use std::{
    collections::{HashMap, hash_map::Entry as Slot},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Error, FencingToken, Grant, Mutex, OwnerId, Request, Signal, SystemEnv, Waiter, jittered,
};
use tokio::sync::Notify;

use crate::{
    dialect::Dialect,
    gate,
    tunables::{LONGEST_POLL, LOOK, LOOK_AFTER_FAILURE},
};

/// The places of a client, by owner.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<OwnerId, Arc<Place>>>);

#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Whether the store may have it.
    entered: AtomicBool,
    wake: Notify,
}

impl Place {
    /// To be called before the store is told of it.
    pub(crate) fn enter(&self) {
        self.entered.store(true, Ordering::Relaxed);
    }

    /// Lets its waiter look.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }
}

impl Places {
    pub(crate) fn of(&self, owner: OwnerId) -> Option<Arc<Place>> {
        self.0.lock().get(&owner).cloned()
    }

    /// Wakes the waiter of this place, if it still waits.
    pub(crate) fn wake(&self, owner: OwnerId) {
        if let Some(place) = self.of(owner) {
            place.wake();
        }
    }

    fn add(&self, owner: OwnerId) -> Arc<Place> {
        let place = Arc::new(Place::default());
        self.0.lock().insert(owner, Arc::clone(&place));
        place
    }

    /// A repeat of its request may have another place by now.
    fn remove(&self, owner: OwnerId, place: &Arc<Place>) {
        if let Slot::Occupied(known) = self.0.lock().entry(owner)
            && Arc::ptr_eq(known.get(), place)
        {
            known.remove();
        }
    }
}

/// What a waiter finds when it looks.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The lock was given to it, with this token.
    Granted(FencingToken),
    /// The lock is free, and nobody goes before it.
    Free,
    /// It has to wait, with so many others before it, or more.
    Wait(u32),
}

/// A database with a table of places.
#[async_trait]
pub(crate) trait Queue: Dialect {
    /// What was given to a waiter is its own for so long, unless it renews it.
    const TURN: Duration;

    fn places(&self) -> &Places;

    /// Whether this client is woken when a lock is given to it; where not, its waiters look.
    fn is_woken(&self) -> bool;

    /// Looks, and changes nothing.
    async fn turn(&self, request: &Request) -> Result<Turn, Error>;

    /// Gives up a place, and what it was granted.
    async fn leave(&self, request: &Request) -> Result<(), Error>;
}

#[derive(Debug)]
pub(crate) struct QueueWaiter<D: Queue> {
    store: Arc<D>,
    request: Request,
    place: Arc<Place>,
    /// Whether there is a reason to look, also if the last look was cut off.
    is_due: bool,
    before: u32,
}

impl<D: Queue> QueueWaiter<D> {
    /// Makes the place known here, before the store hears of it.
    pub(crate) fn new(store: Arc<D>, request: &Request) -> Self {
        let place = store.places().add(request.owner);
        Self { store, request: request.clone(), place, is_due: false, before: 0 }
    }

    async fn wait(&self) {
        if self.store.is_woken() {
            return self.place.wake.notified().await;
        }
        // Each that goes before is served first: the pause doubles with it.
        let pause = LOOK.saturating_mul(1 << self.before.min(6)).min(LONGEST_POLL);
        tokio::time::sleep(jittered(&SystemEnv, pause)).await;
    }
}

impl<D: Queue> Drop for QueueWaiter<D> {
    fn drop(&mut self) {
        self.store.places().remove(self.request.owner, &self.place);
    }
}

#[async_trait]
impl<D: Queue> Waiter for QueueWaiter<D> {
    async fn next(&mut self) -> Signal {
        loop {
            if !self.is_due {
                self.wait().await;
                self.is_due = true;
            }
            let look = async {
                let _pass = gate::attempt(self.store.gate()).await?;
                self.store.turn(&self.request).await
            };
            let turn = match look.await {
                Ok(turn) => turn,
                // The core's own poll is behind this, and reports what it meets.
                Err(error) => {
                    tracing::debug!(name = %self.request.name, %error, "look failed");
                    tokio::time::sleep(LOOK_AFTER_FAILURE).await;
                    continue;
                }
            };
            self.is_due = false;
            match turn {
                Turn::Granted(token) => {
                    return Signal::Granted(Grant::new(&self.request, token).pushed(D::TURN));
                }
                Turn::Free => return Signal::Recheck,
                Turn::Wait(before) => self.before = before,
            }
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        // Every attempt of it was answered: one that never got as far as the queue has left nothing.
        if !self.place.entered.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _pass = gate::attempt(self.store.gate()).await?;
        let left = self.store.leave(&self.request).await;
        left.map_err(|error| error.at(D::KIND, "leave"))
    }
}
