//! The waiters of this process, and the pushes by which nodes wake them.

use std::{
    collections::{BTreeSet, HashMap},
    str::FromStr,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use backend_redis::node::Listener;
use lock_core::{Mutex, OwnerId};
use tokio::sync::mpsc;

/// What an attempt needs to take a place in the nodes' queues.
#[derive(Clone, Debug)]
pub(crate) struct QueueEntry {
    pub(crate) channel: String,
    /// The nodes' clock when the place was first asked for: the same order on all nodes.
    pub(crate) rank: u64,
    /// The nodes that may have given the place, as all attempts of its owner found.
    given: Arc<Mutex<BTreeSet<usize>>>,
}

impl QueueEntry {
    pub(crate) fn may_be_given_by(&self, nodes: impl IntoIterator<Item = usize>) {
        self.given.lock().extend(nodes);
    }

    pub(crate) fn given(&self) -> BTreeSet<usize> {
        self.given.lock().clone()
    }
}

/// The waiters of this client by owner.
#[derive(Debug, Default)]
pub(crate) struct WakeRegistry {
    waiters: Mutex<HashMap<OwnerId, Registered>>,
    count: AtomicUsize,
    entered: AtomicU64,
}

#[derive(Debug)]
struct Registered {
    number: u64,
    entry: QueueEntry,
    calls: mpsc::UnboundedSender<Called>,
}

/// How a waiter is woken to look again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Called {
    /// This node has woken it.
    By(usize),
    /// Wake-ups may have been missed.
    Missed,
}

impl WakeRegistry {
    fn waiters(&self) -> MutexGuard<'_, HashMap<OwnerId, Registered>> {
        self.waiters.lock()
    }

    /// The entry of a waiter of this process.
    pub(crate) fn entry(&self, owner: OwnerId) -> Option<QueueEntry> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.waiters().get(&owner).map(|waiter| waiter.entry.clone())
    }

    /// Enters a waiter, before the nodes hear of it. Returns its number, its entry and its wake-ups. A repeat keeps its rank.
    pub(crate) fn enter(
        &self,
        owner: OwnerId,
        channel: &str,
        rank: u64,
    ) -> (u64, QueueEntry, mpsc::UnboundedReceiver<Called>) {
        let (calls, called) = mpsc::unbounded_channel();
        let number = self.entered.fetch_add(1, Ordering::Relaxed);
        let mut waiters = self.waiters();
        let entry = match waiters.get(&owner) {
            Some(waiter) => waiter.entry.clone(),
            None => QueueEntry { channel: channel.to_owned(), rank, given: Arc::default() },
        };
        waiters.insert(owner, Registered { number, entry: entry.clone(), calls });
        self.count.store(waiters.len(), Ordering::SeqCst);
        (number, entry, called)
    }

    /// Forgets a waiter, unless a repeat has taken its place.
    pub(crate) fn leave(&self, owner: OwnerId, number: u64) {
        let mut waiters = self.waiters();
        if waiters.get(&owner).is_some_and(|waiter| waiter.number == number) {
            waiters.remove(&owner);
        }
        self.count.store(waiters.len(), Ordering::SeqCst);
    }
}

/// Passes the pushes of one node on to the waiters.
#[derive(Debug)]
pub(crate) struct NodeListener {
    pub(crate) wake: Arc<WakeRegistry>,
    pub(crate) node: usize,
}

impl Listener for NodeListener {
    fn listens(&self) -> bool {
        self.wake.count.load(Ordering::SeqCst) > 0
    }

    fn hear(&self, _: &[u8], message: &[u8]) {
        // A message that cannot be read costs a poll.
        if let Ok(text) = std::str::from_utf8(message)
            && let Ok(owner) = OwnerId::from_str(text)
            && let Some(waiter) = self.wake.waiters().get(&owner)
        {
            waiter.calls.send(Called::By(self.node)).ok();
        }
    }

    fn missed(&self) {
        for waiter in self.wake.waiters().values() {
            // A waiter that is gone needs no call.
            waiter.calls.send(Called::Missed).ok();
        }
    }
}
