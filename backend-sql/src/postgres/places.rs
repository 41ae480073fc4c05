//! The places that this client has in the queues of names.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use lock_core::{Env as _, OwnerId, SystemEnv};
use tokio::sync::Notify;

/// All places of a client, by owner.
#[derive(Debug)]
pub(super) struct Places {
    /// Tells this client from others: 32 hexadecimal digits.
    client: String,
    places: Mutex<HashMap<OwnerId, Arc<Place>>>,
    entered: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Place {
    /// As it stands in the queue: the owner, and the client that is to be told.
    pub(super) id: String,
    /// Whether the server has put it into the queue, as far as we know.
    pub(super) queued: AtomicBool,
    pub(super) wake: Notify,
    /// Tells it from the one that a repeat of its request entered later.
    number: u64,
}

impl Places {
    pub(super) fn new() -> Self {
        let client = OwnerId::from_bits(SystemEnv.random()).to_string();
        Self { client, places: Mutex::default(), entered: AtomicU64::new(0) }
    }

    /// Where this client is told that it is a place's turn, by a message that is the place's owner.
    pub(super) fn channel(&self) -> String {
        format!("leasehold_{}", self.client)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OwnerId, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a place here, before the server hears of it.
    pub(super) fn enter(&self, owner: OwnerId) -> Arc<Place> {
        let place = Arc::new(Place {
            id: format!("{owner}{}", self.client),
            queued: AtomicBool::new(false),
            wake: Notify::new(),
            number: self.entered.fetch_add(1, Ordering::Relaxed),
        });
        self.lock().insert(owner, Arc::clone(&place));
        place
    }

    pub(super) fn of(&self, owner: OwnerId) -> Option<Arc<Place>> {
        self.lock().get(&owner).cloned()
    }

    pub(super) fn remove(&self, owner: OwnerId, place: &Place) {
        if let Entry::Occupied(entry) = self.lock().entry(owner)
            && entry.get().number == place.number
        {
            entry.remove();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// It is a place's turn. A message that is not understood, or that came too late, costs nothing.
    pub(super) fn tell(&self, message: &str) {
        if let Ok(owner) = message.parse()
            && let Some(place) = self.of(owner)
        {
            place.wake.notify_one();
        }
    }

    /// A message may have been missed.
    pub(super) fn tell_all(&self) {
        for place in self.lock().values() {
            place.wake.notify_one();
        }
    }
}

/// Grants of this client for whose names others waited when they were granted.
#[derive(Debug, Default)]
pub(super) struct Waited(Mutex<HashSet<OwnerId>>);

impl Waited {
    /// One that is forgotten costs a round trip.
    const MOST: usize = 10_000;

    pub(super) fn note(&self, owner: OwnerId) {
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= Self::MOST {
            owners.clear();
        }
        owners.insert(owner);
    }

    /// Whether it was among them.
    pub(super) fn forget(&self, owner: OwnerId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&owner)
    }
}
