//! The places that a client has in queues, and which names it knows to be crowded.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry as Slot},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::{LockName, Mutex, OwnerId, Request};
use tokio::{sync::Notify, time::Instant};

use crate::{
    dialect::Row,
    tunables::{HEARD_FOR, REMEMBERED_NAMES},
};

/// What a client knows of queues.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Its own places, by owner.
    own: Mutex<HashMap<OwnerId, Arc<Place>>>,
    /// Names that others held or waited for when it last looked: an attempt looks before it writes.
    crowded: Mutex<HashSet<LockName>>,
}

#[derive(Debug)]
pub(crate) struct Place {
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "it tells of many at once"))]
    name: LockName,
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
        self.tell_after(HEARD_FOR, true)
    }

    /// Counts as told from now on if that was last so long ago; where it never was, if `or_first`.
    fn tell_after(&self, pause: Duration, or_first: bool) -> bool {
        let mut told = self.told.lock();
        let is_due = told.map_or(or_first, |told| told.elapsed() >= pause);
        if is_due {
            *told = Some(Instant::now());
        }
        is_due
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn name(&self) -> &LockName {
        &self.name
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
    #[cfg(feature = "sqlite")]
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }
}

impl Places {
    pub(crate) fn of(&self, owner: OwnerId) -> Option<Arc<Place>> {
        self.own.lock().get(&owner).cloned()
    }

    /// Notes whether others hold a name or go first, by what a look for this request has found.
    pub(crate) fn note(&self, request: &Request, row: Option<&Row>) {
        let (owner, name) = (request.owner, &request.name);
        let mut names = self.crowded.lock();
        if row.is_none_or(|row| !row.refuses(request) || row.owner == Some(owner)) {
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

    /// The places that will be due soon, at most so many: one statement tells the store of all. They count as told from now
    /// on.
    #[cfg(feature = "mysql")]
    pub(crate) fn soon_due(&self, most: usize) -> Vec<(OwnerId, Arc<Place>)> {
        let own = self.own.lock();
        let due = own.iter().filter(|(_, place)| place.tell_after(HEARD_FOR / 2, false)).take(most);
        due.map(|(owner, place)| (*owner, Arc::clone(place))).collect()
    }

    /// Wakes the waiter of this place, if it still waits.
    #[cfg(feature = "sqlite")]
    pub(crate) fn wake(&self, owner: OwnerId) {
        if let Some(place) = self.of(owner) {
            place.wake();
        }
    }

    pub(crate) fn add(&self, request: &Request) -> Arc<Place> {
        let place = Arc::new(Place {
            name: request.name.clone(),
            entered: AtomicBool::new(false),
            told: Mutex::new(None),
            wake: Notify::new(),
        });
        self.own.lock().insert(request.owner, Arc::clone(&place));
        place
    }

    /// A repeat of its request may have another place by now.
    pub(crate) fn remove(&self, owner: OwnerId, place: &Arc<Place>) {
        if let Slot::Occupied(known) = self.own.lock().entry(owner)
            && Arc::ptr_eq(known.get(), place)
        {
            known.remove();
        }
    }
}
