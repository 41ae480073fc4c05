//! The queue entries in which this client waits, and how they are woken.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::{Env as _, Instant, Mutex, OwnerId, SystemEnv};
use tokio::sync::Notify;

use super::ranges::WatchedRange;
use crate::{
    keys::{entry::EnqueueAttempt, reserved::ReservedKey},
    leases::Keepalives,
    rpc::Lease,
    tunables::{KEEPALIVE_PAUSE, KEEPALIVES_PER_LEASE, REMEMBERED_DELETIONS},
};

/// An entry in etcd's queue, in which a task waits.
#[derive(Debug)]
pub(crate) struct WaiterEntry {
    pub(crate) owner: OwnerId,
    pub(crate) reserved: Arc<ReservedKey>,
    pub(crate) created: i64,
    /// The offset in the entry.
    pub(crate) offset: i64,
    /// The prefix of all keys of its name.
    prefix: String,
    /// Its lease, as etcd last confirmed it.
    lease: Mutex<Lease>,
    /// The entry whose deletion wakes it, by key and create revision. `None` if it is not known:
    /// then the deletion of any entry of its name wakes it.
    predecessor: Mutex<Option<(String, i64)>>,
    /// Keeps the watch for that deletion; `None` while the entry is being added.
    watched: Mutex<Option<WatchedRange>>,
    /// The lease of the holder, as it was last queried, and the earliest time at which it ends.
    /// Renewals only lengthen it, and a minimum hold uses another lease.
    holder: Mutex<Option<(i64, Instant)>>,
    /// The predecessor is gone, so this entry is probably the first.
    pub(crate) predecessor_gone: AtomicBool,
    lost: AtomicBool,
    wake: Notify,
}

impl WaiterEntry {
    pub(crate) fn new(
        owner: OwnerId,
        prefix: String,
        reserved: Arc<ReservedKey>,
        (created, offset): (i64, i64),
        lease: Lease,
        predecessor: Option<(String, i64)>,
    ) -> Self {
        Self {
            owner,
            reserved,
            created,
            offset,
            prefix,
            lease: Mutex::new(lease),
            predecessor: Mutex::new(predecessor),
            watched: Mutex::default(),
            holder: Mutex::default(),
            predecessor_gone: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    pub(crate) fn key(&self) -> &str {
        &self.reserved.key
    }

    pub(crate) fn lease(&self) -> Lease {
        *self.lease.lock()
    }

    pub(super) fn watch_range(&self, range: WatchedRange) {
        *self.watched.lock() = Some(range);
    }

    fn follow(&self, (key, created): (String, i64)) {
        // Set first: when the watch of the key begins, it wakes the waiters that follow the key at
        // that time.
        *self.predecessor.lock() = Some((key.clone(), created));
        if let Some(watched) = &mut *self.watched.lock() {
            watched.switch_to(&key);
        }
    }

    /// Forgets which entry it follows.
    pub(crate) fn follow_none(&self) {
        *self.predecessor.lock() = None;
    }

    /// Whether it is known which entry it follows.
    pub(crate) fn follows(&self) -> bool {
        self.predecessor.lock().is_some()
    }

    /// The shortest possible remaining TTL of a holder's lease, if it is known.
    pub(crate) fn known_ttl(&self, lease: i64, now: Instant) -> Option<Duration> {
        let (_, until) = self.holder.lock().filter(|(known, _)| *known == lease)?;
        Some(until.since(now)).filter(|left| !left.is_zero())
    }

    pub(crate) fn note_ttl(&self, lease: i64, until: Instant) {
        *self.holder.lock() = Some((lease, until));
    }

    /// What a repeat of its request needs to find this entry.
    pub(crate) fn attempt(&self) -> EnqueueAttempt {
        EnqueueAttempt { lease: self.lease(), reserved: Arc::clone(&self.reserved) }
    }

    /// Whether it follows, or may follow, the entry that was created at this revision.
    pub(crate) fn is_behind(&self, created: i64) -> bool {
        self.predecessor.lock().as_ref().is_none_or(|(_, before)| *before == created)
    }

    fn may_follow(&self, key: &str) -> bool {
        self.predecessor.lock().as_ref().is_none_or(|(predecessor, _)| predecessor == key)
    }

    /// Call this if its entry is gone from etcd.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Waits until it is woken.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Handles a deletion that the watch reported before this client knew this entry or its
    /// predecessor.
    fn replay_deletion(&self, key: &str, at: i64) {
        if self.predecessor.lock().is_some() {
            self.deleted(key, at);
        }
    }

    /// Handles the deletion of an entry of its name at a revision. Keys are reused, so a deletion
    /// before this entry was made is not its own.
    fn deleted(&self, key: &str, at: i64) {
        if self.key() == key {
            if at > self.created {
                self.lose();
            }
            return;
        }
        let follows = match &*self.predecessor.lock() {
            Some((predecessor, created)) => predecessor == key && at > *created,
            None => key.starts_with(&self.prefix),
        };
        if follows {
            self.predecessor_gone.store(true, Ordering::Release);
            self.wake.notify_one();
        }
    }

    /// Keeps its lease alive until this task is aborted or the lease is gone.
    pub(crate) async fn keep_alive(self: Arc<Self>, keepalives: Keepalives) {
        loop {
            let lease = self.lease();
            SystemEnv.sleep_until(lease.from + lease.ttl / KEEPALIVES_PER_LEASE).await;
            match keepalives.extend(lease.id).await {
                Ok(Some(lease)) => *self.lease.lock() = lease,
                Ok(None) => return self.lose(),
                Err(_) => SystemEnv.sleep(KEEPALIVE_PAUSE).await,
            }
        }
    }
}

/// All waiters of a client, by owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    entries: HashMap<OwnerId, Arc<WaiterEntry>>,
    /// The same entries by the key prefix of their name, since a deletion concerns only the waiters
    /// of its name.
    names: HashMap<String, Vec<Arc<WaiterEntry>>>,
    /// The last deletions that the watch reported.
    deleted: VecDeque<(String, i64)>,
}

impl Waiters {
    pub(crate) fn get(&self, owner: OwnerId) -> Option<Arc<WaiterEntry>> {
        self.0.lock().entries.get(&owner).cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().entries.is_empty()
    }

    /// Adds an entry that was just made.
    pub(crate) fn add(&self, entry: &Arc<WaiterEntry>) {
        let mut known = self.0.lock();
        known.remove(entry.owner);
        known.entries.insert(entry.owner, Arc::clone(entry));
        known.names.entry(entry.prefix.clone()).or_default().push(Arc::clone(entry));
        known.deleted.iter().for_each(|(key, at)| entry.replay_deletion(key, *at));
    }

    pub(crate) fn remove(&self, owner: OwnerId) {
        self.0.lock().remove(owner);
    }

    /// Sets the entry that a waiter follows from now on. The watch may already have reported its
    /// deletion.
    pub(crate) fn follow(&self, entry: &WaiterEntry, predecessor: (String, i64)) {
        entry.follow(predecessor);
        self.0.lock().deleted.iter().for_each(|(key, at)| entry.replay_deletion(key, *at));
    }

    /// Wakes the waiters that follow `key`, which was deleted at revision `at`.
    pub(crate) fn deleted(&self, key: &str, at: i64) {
        let mut known = self.0.lock();
        if known.deleted.len() >= REMEMBERED_DELETIONS {
            known.deleted.pop_front();
        }
        known.deleted.push_back((key.to_owned(), at));
        for entry in known.of(name_of(key)) {
            entry.deleted(key, at);
        }
    }

    /// Wakes all waiters. Like the next two, this is for a watch that just began: it may have
    /// missed a deletion.
    pub(crate) fn wake_all(&self) {
        self.0.lock().entries.values().for_each(|entry| entry.wake.notify_one());
    }

    /// Wakes the waiters of a name.
    pub(crate) fn wake_of(&self, name: &str) {
        self.0.lock().of(name).for_each(|entry| entry.wake.notify_one());
    }

    /// Wakes the waiters that follow a key, or may follow it.
    pub(crate) fn wake_behind(&self, key: &str) {
        let known = self.0.lock();
        let behind = known.of(name_of(key)).filter(|entry| entry.may_follow(key));
        behind.for_each(|entry| entry.wake.notify_one());
    }
}

impl Known {
    fn of(&self, name: &str) -> impl Iterator<Item = &Arc<WaiterEntry>> {
        self.names.get(name).into_iter().flatten()
    }

    fn remove(&mut self, owner: OwnerId) {
        let Some(entry) = self.entries.remove(&owner) else { return };
        if let Some(others) = self.names.get_mut(&entry.prefix) {
            others.retain(|other| !Arc::ptr_eq(other, &entry));
            if others.is_empty() {
                self.names.remove(&entry.prefix);
            }
        }
    }
}

/// The prefix of all keys of the same name. Neither an escaped name nor the part after it contains
/// `/`.
fn name_of(key: &str) -> &str {
    key.rfind('/').map_or("", |at| &key[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use lock_core::Mode;

    use crate::keys::{layout::KeyLayout, reserved::ReservedKeys};

    /// An entry that was created at revision 20, behind one of key `p/job/1` that was at 10.
    fn waiting() -> Option<WaiterEntry> {
        let (layout, name) = (KeyLayout::new("p/"), lock_core::LockName::new("job").ok()?);
        let reserved = ReservedKeys::new().next(&layout, &name, Mode::Exclusive);
        let lease = Lease { id: 1, ttl: Duration::from_secs(9), from: SystemEnv.now() };
        let before = Some(("p/job/1".to_owned(), 10));
        let owner = OwnerId::from_bits(7);
        Some(WaiterEntry::new(owner, layout.entries(&name), reserved, (20, 0), lease, before))
    }

    #[test]
    fn the_deletion_of_an_earlier_entry_with_the_same_key_is_no_loss() {
        let waiting = waiting();
        let waiting = waiting.as_ref();
        let delete = |key: &str, at| {
            let entry = waiting?;
            entry.deleted(key, at);
            Some((entry.is_lost(), entry.predecessor_gone.load(Ordering::Acquire)))
        };
        let own = waiting.map(|entry| entry.key().to_owned()).unwrap_or_default();
        assert_eq!(delete(&own, 15), Some((false, false)));
        assert_eq!(delete("p/job/1", 9), Some((false, false)));
        assert_eq!(delete("p/job/2", 30), Some((false, false)));
        assert_eq!(delete("p/job/1", 11), Some((false, true)));
        assert_eq!(delete(&own, 21), Some((true, true)));
    }

    #[test]
    fn a_watch_of_a_key_wakes_only_the_waiters_that_follow_it() {
        let waiters = Waiters::default();
        let Some(entry) = waiting().map(Arc::new) else { panic!("no entry") };
        waiters.add(&entry);
        let is_woken = || entry.wake.notified().now_or_never().is_some();
        waiters.wake_behind("p/job/2");
        assert!(!is_woken());
        waiters.wake_behind("p/job/1");
        assert!(is_woken());
        entry.follow_none();
        waiters.wake_behind("p/job/2");
        assert!(is_woken());
        waiters.wake_of("p/other/");
        assert!(!is_woken());
        waiters.wake_of("p/job/");
        assert!(is_woken());
        waiters.wake_all();
        assert!(is_woken());
    }
}
