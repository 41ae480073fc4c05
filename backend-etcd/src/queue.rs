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
use lock_core::{Env as _, Error, Instant, OwnerId, Signal, SystemEnv, Turn};
use tokio::{sync::Notify, task::AbortHandle};

use crate::{
    keepalive::Keepalives,
    ledger::Credit,
    place::Seen,
    rpc::Lease,
    seats::Seat,
    store::{EtcdBackend, Tried},
};

/// Before a keepalive that had no answer is repeated.
const PAUSE: Duration = Duration::from_millis(100);

/// A place in etcd's queue, with a turn that waits in it.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) owner: OwnerId,
    pub(crate) seat: Arc<Seat>,
    pub(crate) created: i64,
    /// As it stands in the place.
    pub(crate) offset: i64,
    /// What all places of its name begin with.
    places: String,
    /// As it was last credited.
    lease: Mutex<Lease>,
    /// Whose end wakes it, by key and create revision; `None` if that is not known, and any of its name
    /// does.
    predecessor: Mutex<Option<(String, i64)>>,
    /// The lease of whoever was seen to hold the lock, and how long it lives at least: renewals only
    /// lengthen it, and a last while has a lease of its own.
    first: Mutex<Option<(i64, Instant)>>,
    /// The predecessor is gone, so that the place is likely to stand first.
    pub(crate) hinted: AtomicBool,
    lost: AtomicBool,
    wake: Notify,
}

impl Waiting {
    pub(crate) fn new(
        owner: OwnerId,
        places: String,
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
            places,
            lease: Mutex::new(lease),
            predecessor: Mutex::new(predecessor),
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
        *locked(&self.lease)
    }

    pub(crate) fn follow(&self, predecessor: Option<(String, i64)>) {
        *locked(&self.predecessor) = predecessor;
    }

    /// What is left of a holder's lease at least, if that is known.
    pub(crate) fn known_life(&self, lease: i64, now: Instant) -> Option<Duration> {
        let (_, until) = locked(&self.first).filter(|(known, _)| *known == lease)?;
        Some(until.since(now)).filter(|left| !left.is_zero())
    }

    pub(crate) fn note_life(&self, lease: i64, until: Instant) {
        *locked(&self.first) = Some((lease, until));
    }

    /// The place is gone from the store.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// The same as [`ended`](Self::ended) for an end that was told before the place was known.
    fn missed(&self, key: &str, at: i64) {
        if locked(&self.predecessor).is_some() {
            self.ended(key, at);
        }
    }

    /// A place of the name is gone from the store since a revision. A key is used for one place after
    /// the other: what was gone before a place was made is not its end.
    fn ended(&self, key: &str, at: i64) {
        if self.key() == key {
            if at > self.created {
                self.lose();
            }
            return;
        }
        let follows = match &*locked(&self.predecessor) {
            Some((predecessor, created)) => predecessor == key && at > *created,
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
    ended: VecDeque<(String, i64)>,
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
    pub(crate) fn add(&self, waiting: Waiting, store: Arc<EtcdBackend>) -> EtcdTurn {
        let waiting = Arc::new(waiting);
        {
            let mut known = locked(&self.0);
            known.places.insert(waiting.owner, Arc::clone(&waiting));
            known.ended.iter().for_each(|(key, at)| waiting.missed(key, *at));
        }
        let beat = Arc::clone(&waiting).beat(store.keepalives.clone());
        EtcdTurn { waiting, beat: tokio::spawn(beat).abort_handle(), places: self.clone(), store }
    }

    /// Tells whoever waited for the end of `key` that it came with revision `at`.
    pub(crate) fn ended(&self, key: &str, at: i64) {
        let mut known = locked(&self.0);
        if known.ended.len() >= ENDS {
            known.ended.pop_front();
        }
        known.ended.push_back((key.to_owned(), at));
        for waiting in known.places.values() {
            waiting.ended(key, at);
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
    store: Arc<EtcdBackend>,
}

impl EtcdTurn {
    /// What a repeat of its request is to find.
    pub(crate) fn tried(&self) -> Tried {
        Tried { lease: self.waiting.lease(), seat: Arc::clone(&self.waiting.seat) }
    }

    /// Whether no other place stands first.
    pub(crate) fn is_first(&self, first: Option<&Seen>) -> bool {
        first.is_none_or(|first| first.created == self.waiting.created)
    }

    /// Whether its turn comes with the end of the place that was created at a revision.
    pub(crate) fn is_behind(&self, place: i64) -> bool {
        locked(&self.waiting.predecessor).as_ref().is_none_or(|(_, created)| *created == place)
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
        if !self.waiting.is_lost() {
            self.waiting.wake.notified().await;
        }
        if self.waiting.is_lost() {
            return Signal::Lost("its lease ended or was revoked".into());
        }
        Signal::Recheck
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        let revoked = self.store.rpc.revoke(self.waiting.lease().id).await;
        revoked.map(drop).map_err(|failure| Error::from(failure).at("etcd", "leave"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{layout::KeyLayout, seats::Seats};

    /// A place that was created at revision 20, behind one of key `p/job/1` that was at 10.
    fn waiting() -> Option<Waiting> {
        let (layout, name) = (KeyLayout::new("p/"), lock_core::LockName::new("job").ok()?);
        let seat = Seats::new().take(&layout, &name);
        let lease = Lease { id: 1, ttl: Duration::from_secs(9), from: SystemEnv.now() };
        let before = Some(("p/job/1".to_owned(), 10));
        let owner = OwnerId::from_bits(7);
        Some(Waiting::new(owner, layout.places(&name), seat, (20, 0), lease, before))
    }

    #[test]
    fn the_end_of_an_earlier_place_of_the_same_key_is_no_loss() {
        let waiting = waiting();
        let waiting = waiting.as_ref();
        let told = |key: &str, at| {
            let place = waiting?;
            place.ended(key, at);
            Some((place.is_lost(), place.hinted.load(Ordering::Acquire)))
        };
        let own = waiting.map(|place| place.key().to_owned()).unwrap_or_default();
        assert_eq!(told(&own, 15), Some((false, false)));
        assert_eq!(told("p/job/1", 9), Some((false, false)));
        assert_eq!(told("p/job/2", 30), Some((false, false)));
        assert_eq!(told("p/job/1", 11), Some((false, true)));
        assert_eq!(told(&own, 21), Some((true, true)));
    }
}
