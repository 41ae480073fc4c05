//! The entries in which this client waits.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use lock_core::{Error, LockName, Mutex, OwnerId};

use crate::{
    keys::{
        entry::{Entry, holders},
        layout::Layout,
    },
    session::{Ask, Found},
    store::Held,
    tunables::READ_AT_ONCE,
};

/// What a waiter waits for.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) first: Entry,
    pub(crate) last: Entry,
    /// The number of the last entry that may hold the lock.
    pub(crate) holder: Option<i32>,
    pub(crate) count: usize,
}

/// An entry in which a task waits.
#[derive(Debug)]
pub(crate) struct WaiterEntry {
    pub(crate) owner: OwnerId,
    pub(crate) name: LockName,
    pub(crate) held: Held,
    /// The entries that it waits for, in the order of the queue. No new ones come, so it never
    /// lists the directory again.
    ahead: Mutex<Vec<Entry>>,
    is_lost: AtomicBool,
}

impl WaiterEntry {
    pub(crate) fn new(owner: OwnerId, name: LockName, held: Held, ahead: Vec<Entry>) -> Self {
        Self { owner, name, held, ahead: Mutex::new(ahead), is_lost: false.into() }
    }

    /// The entries that it waits for, if any.
    pub(crate) fn ahead(&self) -> Option<Ahead> {
        let ahead = self.ahead.lock();
        let holder = holders(&ahead).last()?.number;
        let (first, last) = (ahead.first()?.clone(), ahead.last()?.clone());
        Some(Ahead { first, last, holder, count: ahead.len() })
    }

    /// An entry that it waited for is gone.
    pub(crate) fn pass(&self, gone: &Entry) {
        self.ahead.lock().retain(|entry| entry.node != gone.node);
    }

    /// Passes all entries that are gone: mostly all of them, since they leave in order.
    pub(crate) async fn pass_gone(&self, layout: &Layout) -> Result<(), Error> {
        let directory = layout.directory(&self.name);
        let all = self.ahead.lock().clone();
        for some in all.chunks(READ_AT_ONCE) {
            let paths: Vec<_> = some.iter().map(|it| format!("{directory}/{}", it.node)).collect();
            let asked: Vec<_> = paths.iter().map(|path| Ask::Data(path)).collect();
            let found = self.held.session.read(&asked).await?;
            let gone = some.iter().zip(found).filter(|(_, found)| matches!(found, Found::Missing));
            let gone: HashSet<_> = gone.map(|(entry, _)| &entry.node).collect();
            self.ahead.lock().retain(|entry| !gone.contains(&entry.node));
        }
        Ok(())
    }

    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire) || !self.held.session.is_alive()
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

    pub(crate) fn remove(&self, owner: OwnerId) {
        self.0.lock().remove(&owner);
    }
}
