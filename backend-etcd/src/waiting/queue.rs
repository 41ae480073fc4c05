//! The entries in which tasks of this client wait.

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

use super::names::Watched;
use crate::{
    keys::{entry::EnqueueAttempt, seats::Seat},
    leases::Keepalives,
    rpc::Lease,
    tunables::{KEEPALIVE_PAUSE, KEEPALIVES_PER_LEASE, REMEMBERED_ENDS},
};

/// An entry in etcd's queue, in which a task waits.
#[derive(Debug)]
pub(crate) struct WaiterEntry {
    pub(crate) owner: OwnerId,
    pub(crate) seat: Arc<Seat>,
    pub(crate) created: i64,
    /// As it stands in the entry.
    pub(crate) offset: i64,
    /// The beginning of all keys of its name.
    prefix: String,
    /// As etcd last confirmed it.
    lease: Mutex<Lease>,
    /// The entry whose end wakes it, by key and create revision; `None` if that is not known, and any end of its name
    /// that it is told of does.
    predecessor: Mutex<Option<(String, i64)>>,
    /// By which it hears of that; `None` while it is being added.
    watched: Mutex<Option<Watched>>,
    /// The lease of the holder that was last seen, and how long it lives at least: renewals only lengthen it, and a
    /// minimum hold has a lease of its own.
    first: Mutex<Option<(i64, Instant)>>,
    /// The predecessor is gone, so that the entry is likely to stand first.
    pub(crate) hinted: AtomicBool,
    lost: AtomicBool,
    wake: Notify,
}

impl WaiterEntry {
    pub(crate) fn new(
        owner: OwnerId,
        prefix: String,
        seat: Arc<Seat>,
        (created, offset): (i64, i64),
        lease: Lease,
        predecessor: Option<(String, i64)>,
    ) -> Self {
        Self {
            owner,
            seat,
            created,
            offset,
            prefix,
            lease: Mutex::new(lease),
            predecessor: Mutex::new(predecessor),
            watched: Mutex::default(),
            first: Mutex::default(),
            hinted: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    pub(crate) fn key(&self) -> &str {
        &self.seat.key
    }

    pub(crate) fn lease(&self) -> Lease {
        *self.lease.lock()
    }

    pub(super) fn hear(&self, watched: Watched) {
        *self.watched.lock() = Some(watched);
    }

    fn follow(&self, (key, created): (String, i64)) {
        // The watch of the key, when it begins, wakes those that follow the key then.
        *self.predecessor.lock() = Some((key.clone(), created));
        if let Some(watched) = &mut *self.watched.lock() {
            watched.turn_to(&key);
        }
    }

    /// It is not known any more which entry it follows.
    pub(crate) fn follow_none(&self) {
        *self.predecessor.lock() = None;
    }

    /// Whether it is known which entry it follows.
    pub(crate) fn follows(&self) -> bool {
        self.predecessor.lock().is_some()
    }

    /// The least remaining TTL of a holder's lease, if it is known.
    pub(crate) fn known_life(&self, lease: i64, now: Instant) -> Option<Duration> {
        let (_, until) = self.first.lock().filter(|(known, _)| *known == lease)?;
        Some(until.since(now)).filter(|left| !left.is_zero())
    }

    pub(crate) fn note_life(&self, lease: i64, until: Instant) {
        *self.first.lock() = Some((lease, until));
    }

    /// For a repeat of its request.
    pub(crate) fn attempt(&self) -> EnqueueAttempt {
        EnqueueAttempt { lease: self.lease(), seat: Arc::clone(&self.seat) }
    }

    /// Whether it follows the entry that was created at a revision, or may follow it.
    pub(crate) fn is_behind(&self, created: i64) -> bool {
        self.predecessor.lock().as_ref().is_none_or(|(_, before)| *before == created)
    }

    fn may_follow(&self, key: &str) -> bool {
        self.predecessor.lock().as_ref().is_none_or(|(predecessor, _)| predecessor == key)
    }

    /// The entry is gone from etcd.
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

    /// Handles an end that the watch told before this entry, or the one that it follows, was known.
    fn missed(&self, key: &str, at: i64) {
        if self.predecessor.lock().is_some() {
            self.ended(key, at);
        }
    }

    /// An entry of the name is gone from etcd since a revision. One key serves one entry after the other: an end
    /// before this entry was made is not its own.
    fn ended(&self, key: &str, at: i64) {
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
            self.hinted.store(true, Ordering::Release);
            self.wake.notify_one();
        }
    }

    /// Keeps its lease alive until it is aborted or the lease is lost.
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
    /// The same, by the beginning of the keys of their names: an end concerns those of its name only.
    names: HashMap<String, Vec<Arc<WaiterEntry>>>,
    /// The last ends that the watch told.
    ended: VecDeque<(String, i64)>,
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
        known.ended.iter().for_each(|(key, at)| entry.missed(key, *at));
    }

    pub(crate) fn remove(&self, owner: OwnerId) {
        self.0.lock().remove(owner);
    }

    /// Notes the entry that one follows from now on. Its end may have been told already.
    pub(crate) fn follow(&self, entry: &WaiterEntry, predecessor: (String, i64)) {
        entry.follow(predecessor);
        self.0.lock().ended.iter().for_each(|(key, at)| entry.missed(key, *at));
    }

    /// Wakes the waiters behind `key`, which ended with revision `at`.
    pub(crate) fn ended(&self, key: &str, at: i64) {
        let mut known = self.0.lock();
        if known.ended.len() >= REMEMBERED_ENDS {
            known.ended.pop_front();
        }
        known.ended.push_back((key.to_owned(), at));
        for entry in known.of(name_of(key)) {
            entry.ended(key, at);
        }
    }

    /// Wakes all: an end may have been missed, here and below.
    pub(crate) fn wake_all(&self) {
        self.0.lock().entries.values().for_each(|entry| entry.wake.notify_one());
    }

    /// Wakes those of a name.
    pub(crate) fn wake_of(&self, name: &str) {
        self.0.lock().of(name).for_each(|entry| entry.wake.notify_one());
    }

    /// Wakes those that follow a key.
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

/// The beginning of all keys of the name of a key: a name has no `/` in etcd, and neither has what comes behind it.
fn name_of(key: &str) -> &str {
    key.rfind('/').map_or("", |at| &key[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use lock_core::Mode;

    use crate::keys::{layout::KeyLayout, seats::Seats};

    /// An entry that was created at revision 20, behind one of key `p/job/1` that was at 10.
    fn waiting() -> Option<WaiterEntry> {
        let (layout, name) = (KeyLayout::new("p/"), lock_core::LockName::new("job").ok()?);
        let seat = Seats::new().take(&layout, &name, Mode::Exclusive);
        let lease = Lease { id: 1, ttl: Duration::from_secs(9), from: SystemEnv.now() };
        let before = Some(("p/job/1".to_owned(), 10));
        let owner = OwnerId::from_bits(7);
        Some(WaiterEntry::new(owner, layout.entries(&name), seat, (20, 0), lease, before))
    }

    #[test]
    fn the_end_of_an_earlier_entry_of_the_same_key_is_no_loss() {
        let waiting = waiting();
        let waiting = waiting.as_ref();
        let told = |key: &str, at| {
            let entry = waiting?;
            entry.ended(key, at);
            Some((entry.is_lost(), entry.hinted.load(Ordering::Acquire)))
        };
        let own = waiting.map(|entry| entry.key().to_owned()).unwrap_or_default();
        assert_eq!(told(&own, 15), Some((false, false)));
        assert_eq!(told("p/job/1", 9), Some((false, false)));
        assert_eq!(told("p/job/2", 30), Some((false, false)));
        assert_eq!(told("p/job/1", 11), Some((false, true)));
        assert_eq!(told(&own, 21), Some((true, true)));
    }

    #[test]
    fn a_watch_of_a_key_wakes_those_that_follow_it_and_no_others() {
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
