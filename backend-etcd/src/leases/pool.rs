//! A pool of unused leases: an acquire that finds one there saves a write of etcd's.
//!
//! The pool is refilled in bursts, whose writes etcd puts into one flush, and only as fast as it is used: the first
//! lease of a length brings one more, and each burst is twice the last, up to the limit, while the pool is emptied.
//! Unused leases end by themselves, so that an idle client costs nothing; `close` revokes them.

use std::{
    collections::HashMap,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use futures_util::future::join_all;
use lock_core::{Env as _, Mutex, SystemEnv};
use tokio::sync::Notify;

use crate::{
    rpc::{Lease, Rpc},
    tunables::REFILL_BELOW,
};

/// The pool of a client.
#[derive(Clone, Debug)]
pub(crate) struct LeasePool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    rpc: Rpc,
    limit: usize,
    stock: Mutex<Stock>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Stock {
    kinds: HashMap<Duration, Kind>,
    filling: usize,
    closed: bool,
}

/// The leases of one length.
#[derive(Debug, Default)]
struct Kind {
    leases: Vec<Lease>,
    /// How many the next burst brings.
    burst: usize,
    filling: bool,
}

impl LeasePool {
    /// A pool of at most `limit` leases of each length; 0 keeps none.
    pub(crate) fn new(rpc: Rpc, limit: usize) -> Self {
        let (stock, filled) = (Mutex::default(), Notify::new());
        Self(Arc::new(Shared { rpc, limit, stock, filled }))
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.0.stock.lock()
    }

    /// The youngest lease of this length, whether or not it still lives. A pool that runs low is
    /// refilled in the background.
    pub(crate) fn take(&self, ttl: Duration) -> Option<Lease> {
        let mut stock = self.stock();
        let (closed, limit) = (stock.closed, self.0.limit);
        let kind = stock.kinds.entry(ttl).or_default();
        let now = SystemEnv.now();
        kind.leases.retain(|lease| now.since(lease.from) < lease.ttl);
        let lease = kind.leases.pop();
        if kind.leases.len() * REFILL_BELOW <= kind.burst && !kind.filling && !closed && limit > 0 {
            kind.burst = if lease.is_some() { kind.burst * 2 } else { kind.burst / 2 };
            kind.burst = kind.burst.clamp(1, limit);
            kind.filling = true;
            let wanted = kind.burst.min(limit - kind.leases.len().min(limit));
            stock.filling += 1;
            drop(stock);
            tokio::spawn(self.clone().fill(ttl, wanted));
        }
        lease
    }

    /// Keeps an unused lease for the next attempt. A lease above the limit ends by itself.
    pub(crate) fn put(&self, lease: Lease) {
        let mut stock = self.stock();
        if stock.closed {
            return;
        }
        let kind = stock.kinds.entry(lease.ttl).or_default();
        if kind.leases.len() < self.0.limit.max(1) {
            // The youngest is taken first.
            let at = kind.leases.partition_point(|other| other.from <= lease.from);
            kind.leases.insert(at, lease);
        }
    }

    async fn fill(self, ttl: Duration, wanted: usize) {
        let _filled = Filled(&self, ttl);
        let granted = join_all((0..wanted).map(|_| self.0.rpc.grant(ttl))).await;
        let mut late = Vec::new();
        for lease in granted.into_iter().flatten() {
            if self.stock().closed {
                late.push(lease);
            } else {
                self.put(lease);
            }
        }
        // The client was closed meanwhile, and waits for this.
        join_all(late.iter().map(|lease| self.0.rpc.revoke(lease.id))).await;
    }

    /// Revokes all leases, also those that a burst still asks for.
    pub(crate) async fn close(&self) {
        let leases: Vec<Lease> = {
            let mut stock = self.stock();
            stock.closed = true;
            stock.kinds.drain().flat_map(|(_, kind)| kind.leases).collect()
        };
        // A lease that cannot be revoked ends by itself.
        join_all(leases.iter().map(|lease| self.0.rpc.revoke(lease.id))).await;
        loop {
            let filled = self.0.filled.notified();
            tokio::pin!(filled);
            filled.as_mut().enable();
            if self.stock().filling == 0 {
                return;
            }
            filled.await;
        }
    }
}

/// Marks the end of a burst, also where its runtime ends.
struct Filled<'a>(&'a LeasePool, Duration);

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        let Self(pool, ttl) = self;
        {
            let mut stock = pool.stock();
            stock.filling -= 1;
            if let Some(kind) = stock.kinds.get_mut(ttl) {
                kind.filling = false;
            }
        }
        pool.0.filled.notify_waiters();
    }
}
