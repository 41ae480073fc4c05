//! A waiter with a place in a table of places, and what a client knows of its own.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry as Slot},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Error, FencingToken, Grant, LockName, Mutex, OwnerId, Request, Signal, SystemEnv, Waiter,
    jittered,
};
use tokio::{sync::Notify, time::Instant};

use crate::{
    dialect::{Dialect, Row},
    gate,
    tunables::{
        HEARD_FOR, LONGEST_LOOK, LONGEST_POLL, LOOK_AFTER_FAILURE, LOOK_PART, REMEMBERED_NAMES,
        SHORTEST_LOOK,
    },
};

/// What a client knows of queues.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Its own places, by owner.
    own: Mutex<HashMap<OwnerId, Arc<Place>>>,
    /// Names that others held or waited for when it last looked: an attempt looks before it writes.
    crowded: Mutex<HashSet<LockName>>,
}

#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Whether the store may have it.
    entered: AtomicBool,
    /// When the store was told of it last.
    told: Mutex<Option<Instant>>,
    wake: Notify,
}

impl Place {
    /// Whether the store is to be told of it, and counts as told from now on. What was said a moment ago need not be
    /// repeated.
    pub(crate) fn enter(&self) -> bool {
        self.entered.store(true, Ordering::Relaxed);
        let mut told = self.told.lock();
        let is_due = told.is_none_or(|told| told.elapsed() >= HEARD_FOR);
        if is_due {
            *told = Some(Instant::now());
        }
        is_due
    }

    /// Perhaps the store was not told after all.
    pub(crate) fn doubt(&self) {
        *self.told.lock() = None;
    }

    /// Whether the store may have it.
    pub(crate) fn is_entered(&self) -> bool {
        self.entered.load(Ordering::Relaxed)
    }

    /// Lets its waiter look.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }
}

impl Places {
    pub(crate) fn of(&self, owner: OwnerId) -> Option<Arc<Place>> {
        self.own.lock().get(&owner).cloned()
    }

    /// Notes whether others hold a name or go first, by what a look for this owner has found.
    pub(crate) fn note(&self, owner: OwnerId, name: &LockName, row: Option<&Row>) {
        let mut names = self.crowded.lock();
        if row.is_none_or(|row| !row.is_taken() || row.owner == Some(owner)) {
            names.remove(name);
        } else if !names.contains(name) {
            if names.len() >= REMEMBERED_NAMES {
                names.clear();
            }
            names.insert(name.clone());
        }
    }

    /// Whether a request is to look first.
    pub(crate) fn looks_first(&self, request: &Request) -> bool {
        self.own.lock().contains_key(&request.owner) || self.crowded.lock().contains(&request.name)
    }

    /// Wakes the waiter of this place, if it still waits.
    pub(crate) fn wake(&self, owner: OwnerId) {
        if let Some(place) = self.of(owner) {
            place.wake();
        }
    }

    fn add(&self, owner: OwnerId) -> Arc<Place> {
        let place = Arc::new(Place::default());
        self.own.lock().insert(owner, Arc::clone(&place));
        place
    }

    /// A repeat of its request may have another place by now.
    fn remove(&self, owner: OwnerId, place: &Arc<Place>) {
        if let Slot::Occupied(known) = self.own.lock().entry(owner)
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
    /// How many others it found before it, at most and last.
    before: [u32; 2],
    since: Instant,
}

impl<D: Queue> QueueWaiter<D> {
    /// Makes the place known here, before the store hears of it.
    pub(crate) fn new(store: Arc<D>, request: &Request) -> Self {
        let place = store.places().add(request.owner);
        let (request, since) = (request.clone(), Instant::now());
        Self { store, request, place, is_due: false, before: [0; 2], since }
    }

    async fn wait(&self) {
        if self.store.is_woken() {
            return self.place.wake.notified().await;
        }
        let pause = pause(self.before, self.since.elapsed());
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
                    // It has left the queue. Where it asks once more, it was too late to take it.
                    self.place.doubt();
                    return Signal::Granted(Grant::new(&self.request, token).pushed(D::TURN));
                }
                Turn::Free => return Signal::Recheck,
                Turn::Wait(before) => self.before = [self.before[0].max(before), before],
            }
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        // Every attempt of it was answered: one that never got as far as the queue has left nothing.
        if !self.place.is_entered() {
            return Ok(());
        }
        let _pass = gate::attempt(self.store.gate()).await?;
        let left = self.store.leave(&self.request).await;
        left.map_err(|error| error.at(D::KIND, "leave"))
    }
}

/// The pause before the next look of a waiter that is not woken: a part of the time until its turn, as turns have gone so far.
fn pause([most, now]: [u32; 2], waited: Duration) -> Duration {
    let turn = waited / most.saturating_sub(now).max(1);
    let first = (turn / LOOK_PART).clamp(SHORTEST_LOOK, LONGEST_LOOK);
    first.saturating_mul(now.saturating_add(1)).min(LONGEST_POLL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_looks_the_more_often_the_sooner_its_turn_comes() {
        let millis = |before, waited| pause(before, Duration::from_millis(waited)).as_millis();
        assert_eq!(millis([0, 0], 0), 1);
        assert_eq!(millis([0, 0], 80), 20);
        assert_eq!(millis([0, 0], 10_000), 50);
        // Of eight others six were served, in 120 ms: a turn takes 20 ms.
        assert_eq!(millis([8, 2], 120), 15);
        assert_eq!(millis([8, 8], 10_000), 450);
        assert_eq!(millis([u32::MAX; 2], u64::MAX), 500);
    }
}
