//! The queue entries of this client, and the names that it knows to be crowded.

use std::{
    collections::{HashMap, hash_map::Entry as Slot},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::{LockName, Mutex, OwnerId, Request};
use tokio::{sync::Notify, time::Instant};

use crate::{bounded_set::BoundedSet, dialect::Row, tunables::HEARTBEAT};

/// What a client knows of queues.
#[derive(Debug, Default)]
pub(crate) struct QueueEntries {
    /// Its own entries, by owner.
    own: Mutex<HashMap<OwnerId, Arc<QueueEntry>>>,
    /// Names that others held or waited for when the client last read their rows. For these, an
    /// attempt reads before it writes.
    crowded: BoundedSet<LockName>,
}

#[derive(Debug)]
pub(crate) struct QueueEntry {
    #[cfg_attr(
        not(feature = "mysql"),
        expect(dead_code, reason = "only MySQL sends the heartbeats of many names at once")
    )]
    name: LockName,
    /// Whether the entry may be in the queue.
    queued: AtomicBool,
    /// Whether the waiter has just found the lock free.
    free: AtomicBool,
    /// Whether its waiter listens to a bell.
    listening: AtomicBool,
    /// Whether its waiter is polled seldom, since it listens.
    #[cfg(feature = "mysql")]
    seldom: AtomicBool,
    /// When the last heartbeat was sent.
    last_heartbeat: Mutex<Option<Instant>>,
    wake: Notify,
}

impl QueueEntry {
    /// Whether the caller must send a heartbeat now. If so, it counts as sent.
    pub(crate) fn begin_heartbeat(&self) -> bool {
        self.queued.store(true, Ordering::Relaxed);
        // A waiter that listens is polled seldom, and sends one with each poll.
        let listens = self.listening.load(Ordering::Relaxed);
        self.begin_if_due(if listens { Duration::ZERO } else { HEARTBEAT }, true)
    }

    /// Counts a heartbeat as sent if the last one is this old. `or_first`: also if there was none.
    fn begin_if_due(&self, pause: Duration, or_first: bool) -> bool {
        let mut last = self.last_heartbeat.lock();
        let is_due = last.map_or(or_first, |last| last.elapsed() >= pause);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }

    /// Notes whether its waiter listens to a bell.
    pub(crate) fn set_listening(&self, listening: bool) {
        self.listening.store(listening, Ordering::Relaxed);
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Notes whether its waiter is polled seldom. Its answers to polls are old then, and a grant
    /// that is counted from them is of no use.
    #[cfg(feature = "mysql")]
    pub(crate) fn set_seldom(&self, seldom: bool) {
        self.seldom.store(seldom, Ordering::Relaxed);
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn is_seldom(&self) -> bool {
        self.seldom.load(Ordering::Relaxed)
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    /// The last heartbeat may not have arrived: the next poll sends another.
    pub(crate) fn heartbeat_failed(&self) {
        *self.last_heartbeat.lock() = None;
    }

    /// Whether the entry may be in the queue.
    pub(crate) fn is_queued(&self) -> bool {
        self.queued.load(Ordering::Relaxed)
    }

    /// The waiter has found the lock free: the next attempt need not read the row first.
    pub(crate) fn note_free(&self) {
        self.free.store(true, Ordering::Relaxed);
    }

    /// Lets its waiter check.
    #[cfg(feature = "sqlite")]
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }
}

impl QueueEntries {
    pub(crate) fn of(&self, owner: OwnerId) -> Option<Arc<QueueEntry>> {
        self.own.lock().get(&owner).cloned()
    }

    /// Notes whether others hold a name or come first, by the row that this request has read. A row
    /// that this request holds itself does not show who waits.
    pub(crate) fn note(&self, request: &Request, row: Option<&Row>) {
        match row {
            Some(row) if row.owner == Some(request.owner) => {}
            Some(row) if row.refuses(request) => self.crowded.insert(&request.name),
            _ => {
                self.crowded.remove(&request.name);
            }
        }
    }

    /// Whether others held a name or waited for it when this client last read its row.
    #[cfg(feature = "mysql")]
    pub(crate) fn is_crowded(&self, name: &LockName) -> bool {
        self.crowded.contains(name)
    }

    /// Others wait for a name.
    #[cfg(feature = "mysql")]
    pub(crate) fn note_waiters(&self, name: &LockName) {
        self.crowded.insert(name);
    }

    /// Whether a request should read the row first.
    pub(crate) fn reads_first(&self, request: &Request) -> bool {
        match self.own.lock().get(&request.owner) {
            Some(entry) => !entry.free.swap(false, Ordering::Relaxed),
            None => self.crowded.contains(&request.name),
        }
    }

    /// The entries whose heartbeats are soon due, at most `most`. Their heartbeats count as sent:
    /// one statement sends all.
    #[cfg(feature = "mysql")]
    pub(crate) fn soon_due(&self, most: usize) -> Vec<(OwnerId, Arc<QueueEntry>)> {
        let own = self.own.lock();
        let due =
            own.iter().filter(|(_, entry)| entry.begin_if_due(HEARTBEAT / 2, false)).take(most);
        due.map(|(owner, entry)| (*owner, Arc::clone(entry))).collect()
    }

    /// Wakes the waiter of this entry, if it still waits.
    #[cfg(feature = "sqlite")]
    pub(crate) fn wake(&self, owner: OwnerId) {
        if let Some(entry) = self.of(owner) {
            entry.wake();
        }
    }

    pub(crate) fn add(&self, request: &Request) -> Arc<QueueEntry> {
        let entry = Arc::new(QueueEntry {
            name: request.name.clone(),
            queued: AtomicBool::new(false),
            free: AtomicBool::new(false),
            listening: AtomicBool::new(false),
            #[cfg(feature = "mysql")]
            seldom: AtomicBool::new(false),
            last_heartbeat: Mutex::new(None),
            wake: Notify::new(),
        });
        self.own.lock().insert(request.owner, Arc::clone(&entry));
        entry
    }

    /// Removes this entry, but not one that a repeat of its request entered later.
    pub(crate) fn remove(&self, owner: OwnerId, entry: &Arc<QueueEntry>) {
        if let Slot::Occupied(known) = self.own.lock().entry(owner)
            && Arc::ptr_eq(known.get(), entry)
        {
            known.remove();
        }
    }
}
