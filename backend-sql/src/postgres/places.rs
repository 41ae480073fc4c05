//! The places that this client has in the queues of names.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use lock_core::{Env as _, FencingToken, LockName, OwnerId, Request, SystemEnv};
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
    /// As it stands in the queue: the owner, the client that is to be told, `+` if it may be given the
    /// lock or `-` if it is to be told to ask, and the owner's label.
    pub(super) id: String,
    /// Whether the server has put it into the queue, as far as we know.
    pub(super) queued: AtomicBool,
    pub(super) wake: Notify,
    given: Mutex<Option<Given>>,
    /// Tells it from the one that a repeat of its request entered later.
    number: u64,
}

/// A grant that was given to a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) token: FencingToken,
    /// Whether more places wait behind it.
    pub(super) more: bool,
}

impl Place {
    /// What it was given since it was looked at last.
    pub(super) fn take_given(&self) -> Option<Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
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
    pub(super) fn enter(&self, request: &Request) -> Arc<Place> {
        let Request { owner, label, floor, .. } = request;
        // Who gives the lock away does not know of a floor.
        let how = if *floor == FencingToken::ZERO { '+' } else { '-' };
        let place = Arc::new(Place {
            id: format!("{owner}{}{how}{}", self.client, label.as_str()),
            queued: AtomicBool::new(false),
            wake: Notify::new(),
            given: Mutex::default(),
            number: self.entered.fetch_add(1, Ordering::Relaxed),
        });
        self.lock().insert(*owner, Arc::clone(&place));
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

    /// It is a place's turn to ask, or it was given the lock: the message is the owner, or the owner, the
    /// token, and whether more wait. One that is not understood, or came too late, costs nothing.
    pub(super) fn tell(&self, message: &str) {
        let mut words = message.split(' ');
        let owner = words.next().and_then(|owner| owner.parse().ok());
        let Some(place) = owner.and_then(|owner| self.of(owner)) else { return };
        let token = words.next().and_then(|token| token.parse().ok()).and_then(FencingToken::new);
        if let Some(token) = token {
            let given = Given { token, more: words.next() != Some("0") };
            *place.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(given);
        }
        place.wake.notify_one();
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

    pub(super) fn has(&self, owner: OwnerId) -> bool {
        let owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        owners.contains(&owner)
    }

    /// Whether it was among them.
    pub(super) fn forget(&self, owner: OwnerId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&owner)
    }
}

/// Names for which others held or waited when this client last heard: who wants one of them looks, and
/// queues, before it tries to take it.
#[derive(Debug, Default)]
pub(super) struct Crowded(Mutex<HashSet<LockName>>);

impl Crowded {
    /// One that is forgotten costs a round trip or two.
    const MOST: usize = 10_000;

    pub(super) fn note(&self, name: &LockName, crowded: bool) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !crowded {
            names.remove(name);
        } else if !names.contains(name) {
            if names.len() >= Self::MOST {
                names.clear();
            }
            names.insert(name.clone());
        }
    }

    pub(super) fn has(&self, name: &LockName) -> bool {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !names.is_empty() && names.contains(name)
    }
}
