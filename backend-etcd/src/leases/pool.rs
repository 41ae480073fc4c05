//! A pool of unused leases. An acquire that finds a lease in the pool saves etcd a write.
//!
//! The pool is refilled in bursts, which etcd writes in one flush, and only as fast as it is used:
//! the first use of a length adds one lease, and each later burst is twice the last one, up to the
//! limit, while the pool runs low. Unused leases expire, so an idle client costs nothing. `close`
//! revokes them.

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
    lengths: HashMap<Duration, Length>,
    /// How many bursts are under way.
    filling: usize,
    closed: bool,
}

/// The leases of one length.
#[derive(Debug, Default)]
struct Length {
    leases: Vec<Lease>,
    /// How many leases the next burst adds.
    burst: usize,
    filling: bool,
}

impl LeasePool {
    /// A pool of at most `limit` leases of each length. With 0 it is never refilled.
    pub(crate) fn new(rpc: Rpc, limit: usize) -> Self {
        let (stock, filled) = (Mutex::default(), Notify::new());
        Self(Arc::new(Shared { rpc, limit, stock, filled }))
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.0.stock.lock()
    }

    /// The youngest lease of this length. etcd may have ended it already. A pool that runs low is
    /// refilled in the background.
    pub(crate) fn take(&self, ttl: Duration) -> Option<Lease> {
        let mut stock = self.stock();
        let (closed, limit) = (stock.closed, self.0.limit);
        let length = stock.lengths.entry(ttl).or_default();
        let now = SystemEnv.now();
        length.leases.retain(|lease| now.since(lease.from) < lease.ttl);
        let lease = length.leases.pop();
        if length.leases.len() * REFILL_BELOW <= length.burst
            && !length.filling
            && !closed
            && limit > 0
        {
            length.burst = if lease.is_some() { length.burst * 2 } else { length.burst / 2 };
            length.burst = length.burst.clamp(1, limit);
            length.filling = true;
            let wanted = length.burst.min(limit - length.leases.len().min(limit));
            stock.filling += 1;
            drop(stock);
            tokio::spawn(self.clone().fill(ttl, wanted));
        }
        lease
    }

    /// Keeps an unused lease for the next attempt. A lease above the limit is left to expire.
    pub(crate) fn put(&self, lease: Lease) {
        let mut stock = self.stock();
        if stock.closed {
            return;
        }
        let length = stock.lengths.entry(lease.ttl).or_default();
        if length.leases.len() < self.0.limit.max(1) {
            // The youngest is taken first.
            let at = length.leases.partition_point(|other| other.from <= lease.from);
            length.leases.insert(at, lease);
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
        // The client was closed meanwhile, and `close` waits for this.
        join_all(late.iter().map(|lease| self.0.rpc.revoke(lease.id))).await;
    }

    /// Revokes all leases, including those that a burst is still requesting.
    pub(crate) async fn close(&self) {
        let leases: Vec<Lease> = {
            let mut stock = self.stock();
            stock.closed = true;
            stock.lengths.drain().flat_map(|(_, length)| length.leases).collect()
        };
        // A lease that cannot be revoked expires.
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

/// Marks the end of a burst, even if its runtime ends.
struct Filled<'a>(&'a LeasePool, Duration);

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        let Self(pool, ttl) = self;
        {
            let mut stock = pool.stock();
            stock.filling -= 1;
            if let Some(length) = stock.lengths.get_mut(ttl) {
                length.filling = false;
            }
        }
        pool.0.filled.notify_waiters();
    }
}
