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

/// What an attempt needs to join the nodes' queues.
#[derive(Clone, Debug)]
pub(crate) struct QueueEntry {
    pub(crate) channel: String,
    /// The nodes' clock when the owner first asked for an entry. It gives the same order on all
    /// nodes.
    pub(crate) rank: u64,
    /// The nodes that may have made an entry, as found by all attempts of this owner.
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
    calls: mpsc::UnboundedSender<Wake>,
}

/// Why a waiter is woken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wake {
    /// This node has called it.
    By(usize),
    /// Calls may have been missed.
    Missed,
}

impl WakeRegistry {
    fn waiters(&self) -> MutexGuard<'_, HashMap<OwnerId, Registered>> {
        self.waiters.lock()
    }

    /// The queue entry of a waiter of this process.
    pub(crate) fn entry(&self, owner: OwnerId) -> Option<QueueEntry> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.waiters().get(&owner).map(|waiter| waiter.entry.clone())
    }

    /// Registers a waiter, before the nodes know of it. Returns its number, its entry and its
    /// wake-ups. A repeat keeps its rank.
    pub(crate) fn enter(
        &self,
        owner: OwnerId,
        channel: &str,
        rank: u64,
    ) -> (u64, QueueEntry, mpsc::UnboundedReceiver<Wake>) {
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

    /// Removes a waiter, unless a repeat has replaced it.
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

    fn on_message(&self, _: &[u8], message: &[u8]) {
        // If a message cannot be read, the cost is one poll.
        if let Ok(text) = std::str::from_utf8(message)
            && let Ok(owner) = OwnerId::from_str(text)
            && let Some(waiter) = self.wake.waiters().get(&owner)
        {
            waiter.calls.send(Wake::By(self.node)).ok();
        }
    }

    fn missed(&self) {
        for waiter in self.wake.waiters().values() {
            // A waiter that is gone needs no call.
            waiter.calls.send(Wake::Missed).ok();
        }
    }
}
