//! The entries in which this client waits.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use lock_core::{Mutex, OwnerId};

use crate::store::OwnEntry;

/// An entry in which a task waits.
#[derive(Debug)]
pub(crate) struct WaiterEntry {
    pub(crate) owner: OwnerId,
    pub(crate) own: OwnEntry,
    /// The path of the last entry that it waits for. `None` once the task was told that this one
    /// has changed, until an attempt has read the queue again.
    predecessor: Mutex<Option<String>>,
    is_lost: AtomicBool,
}

impl WaiterEntry {
    pub(crate) fn new(owner: OwnerId, own: OwnEntry, predecessor: String) -> Self {
        let predecessor = Mutex::new(Some(predecessor));
        Self { owner, own, predecessor, is_lost: false.into() }
    }

    pub(super) fn predecessor(&self) -> Option<String> {
        self.predecessor.lock().clone()
    }

    pub(crate) fn set_predecessor(&self, path: Option<String>) {
        *self.predecessor.lock() = path;
    }

    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire) || !self.own.session.is_alive()
    }
}

/// All waiters of a client, by owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Arc<Mutex<HashMap<OwnerId, Arc<WaiterEntry>>>>);

impl Waiters {
    pub(crate) fn get(&self, owner: OwnerId) -> Option<Arc<WaiterEntry>> {
        self.0.lock().get(&owner).cloned()
    }

    pub(super) fn add(&self, entry: &Arc<WaiterEntry>) {
        self.0.lock().insert(entry.owner, Arc::clone(entry));
    }

    pub(super) fn remove(&self, owner: OwnerId) {
        self.0.lock().remove(&owner);
    }
}
