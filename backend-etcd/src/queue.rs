//! The places of this client: what keeps them alive, and what wakes them.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{Env as _, Error, OwnerId, Signal, SystemEnv, Turn};
use tokio::{sync::Notify, task::AbortHandle};

use crate::{
    keepalive::Keepalives,
    ledger::Credit,
    place::Seen,
    rpc::{Lease, Rpc},
};

/// Before a keepalive that had no answer is repeated.
const PAUSE: Duration = Duration::from_millis(100);

/// A place in etcd's queue, with a turn that waits in it.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) owner: OwnerId,
    pub(crate) key: String,
    pub(crate) created: i64,
    /// As it stands in the place.
    pub(crate) offset: i64,
    /// What all places of its name begin with.
    places: String,
    /// As it was last credited.
    lease: Mutex<Lease>,
    /// Whose end wakes it; `None` if that is not known, and any of its name does.
    predecessor: Mutex<Option<String>>,
    /// The predecessor is gone, so that the place is likely to stand first.
    pub(crate) hinted: AtomicBool,
    lost: AtomicBool,
    wake: Notify,
}

impl Waiting {
    pub(crate) fn new(
        owner: OwnerId,
        places: String,
        key: String,
        (created, offset): (i64, i64),
        lease: Lease,
        predecessor: Option<String>,
    ) -> Self {
        Self {
            owner,
            key,
            created,
            offset,
            places,
            lease: Mutex::new(lease),
            predecessor: Mutex::new(predecessor),
            hinted: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    pub(crate) fn lease(&self) -> Lease {
        *locked(&self.lease)
    }

    pub(crate) fn follow(&self, predecessor: Option<String>) {
        *locked(&self.predecessor) = predecessor;
    }

    /// The place is gone from the store.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// The same as [`ended`](Self::ended) for an end that was told before the place was known. A lease is
    /// used for one place after the other, and so is its key: such an end is never this place's own.
    fn missed(&self, key: &str) {
        if locked(&self.predecessor).as_deref() == Some(key) {
            self.ended(key);
        }
    }

    /// A place of the name is gone from the store.
    fn ended(&self, key: &str) {
        if self.key == key {
            return self.lose();
        }
        let follows = match locked(&self.predecessor).as_deref() {
            Some(predecessor) => predecessor == key,
            None => key.starts_with(&self.places),
        };
        if follows {
            self.hinted.store(true, Ordering::Release);
            self.wake.notify_one();
        }
    }

    /// Keeps its lease alive until it is aborted or the lease is lost.
    async fn beat(self: Arc<Self>, keepalives: Keepalives) {
        loop {
            let lease = self.lease();
            SystemEnv.sleep_until(lease.from + lease.ttl / 3).await;
            match keepalives.ask(lease.id).await {
                Ok(Credit::Alive { from, seconds }) => {
                    let ttl = Duration::from_secs(seconds);
                    *locked(&self.lease) = Lease { id: lease.id, ttl, from };
                }
                Ok(_) => return self.lose(),
                Err(_) => SystemEnv.sleep(PAUSE).await,
            }
        }
    }
}

/// All places of a client, by owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    places: HashMap<OwnerId, Arc<Waiting>>,
    /// The last that ended: the watch may tell of an end before the answer that tells of the place behind
    /// it.
    ended: VecDeque<String>,
}

/// How many ends are remembered.
const ENDS: usize = 64;

impl Places {
    pub(crate) fn get(&self, owner: OwnerId) -> Option<Arc<Waiting>> {
        locked(&self.0).places.get(&owner).cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.0).places.is_empty()
    }

    /// A turn for a place that was just made.
    pub(crate) fn add(&self, waiting: Waiting, keepalives: &Keepalives, rpc: &Rpc) -> EtcdTurn {
        let waiting = Arc::new(waiting);
        {
            let mut known = locked(&self.0);
            known.places.insert(waiting.owner, Arc::clone(&waiting));
            known.ended.iter().for_each(|key| waiting.missed(key));
        }
        let beat = tokio::spawn(Arc::clone(&waiting).beat(keepalives.clone())).abort_handle();
        EtcdTurn { waiting, beat, places: self.clone(), rpc: rpc.clone() }
    }

    /// Tells whoever waited for the end of `key`.
    pub(crate) fn ended(&self, key: &str) {
        let mut known = locked(&self.0);
        if known.ended.len() >= ENDS {
            known.ended.pop_front();
        }
        known.ended.push_back(key.to_owned());
        for waiting in known.places.values() {
            waiting.ended(key);
        }
    }

    /// An end may have been missed: all are to look.
    pub(crate) fn wake_all(&self) {
        for waiting in locked(&self.0).places.values() {
            waiting.wake.notify_one();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits in a place.
#[derive(Debug)]
pub(crate) struct EtcdTurn {
    waiting: Arc<Waiting>,
    beat: AbortHandle,
    places: Places,
    rpc: Rpc,
}

impl EtcdTurn {
    /// Whether no other place stands first.
    pub(crate) fn is_first(&self, first: Option<&Seen>) -> bool {
        first.is_none_or(|first| first.key == self.waiting.key)
    }

    /// Whether its turn comes with the end of this key.
    pub(crate) fn is_behind(&self, key: &str) -> bool {
        locked(&self.waiting.predecessor).as_deref().is_none_or(|predecessor| predecessor == key)
    }
}

impl Drop for EtcdTurn {
    fn drop(&mut self) {
        // Once granted, the lock's renewals keep the lease; else the place is to die.
        self.beat.abort();
        locked(&self.places.0).places.remove(&self.waiting.owner);
    }
}

#[async_trait]
impl Turn for EtcdTurn {
    async fn next(&mut self) -> Signal {
        if !self.waiting.lost.load(Ordering::Acquire) {
            self.waiting.wake.notified().await;
        }
        if self.waiting.lost.load(Ordering::Acquire) {
            return Signal::Lost("its lease ended or was revoked".into());
        }
        Signal::Recheck
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        let revoked = self.rpc.revoke(self.waiting.lease().id).await;
        revoked.map(drop).map_err(|error| error.at("etcd", "leave"))
    }
}

/// What an abandoned owner gets: no place.
#[derive(Debug)]
pub(crate) struct NoTurn;

#[async_trait]
impl Turn for NoTurn {
    async fn next(&mut self) -> Signal {
        Signal::Lost("its owner was abandoned".into())
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
