//! A pool of unused leases. An acquire that finds a lease in the pool saves etcd a write.
//!
//! A lock that was held for a short time returns its lease. While the pool runs low all the same,
//! it is refilled in bursts, which etcd writes in one flush: the first use of a length adds one
//! lease, and each later burst is twice the last one, up to the limit. Unused leases expire, so an
//! idle client costs nothing. `close` revokes them.
//!
//! A lease belongs to the history of the cluster in which it was last unused. In a restored
//! cluster, the key of an earlier grant may live by it again, and its next grant would keep that
//! key alive.

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
    tunables::{OLD_AFTER, REFILL_BELOW},
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
    /// The history of all leases in it.
    history: u64,
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
    /// A pool of at most `limit` leases of each length, in this history. With 0 it is never
    /// refilled, and no lock returns its lease.
    pub(crate) fn new(rpc: Rpc, limit: usize, history: u64) -> Self {
        let stock = Mutex::new(Stock { history, ..Stock::default() });
        let filled = Notify::new();
        Self(Arc::new(Shared { rpc, limit, stock, filled }))
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.0.stock.lock()
    }

    /// The youngest lease of this length and this history. etcd may have ended it already. A pool
    /// that runs low is refilled in the background.
    pub(crate) fn take(&self, ttl: Duration, history: u64) -> Option<Lease> {
        let mut stock = self.stock();
        let (closed, limit) = (stock.closed, self.0.limit);
        if stock.history != history {
            stock.history = history;
            stock.lengths.values_mut().for_each(|length| length.leases.clear());
        }
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
            tokio::spawn(self.clone().fill(ttl, wanted, history));
        }
        lease
    }

    /// Keeps an unused lease of this history for the next attempt. `false` if there is no room for
    /// it: unless the caller revokes it, it expires.
    pub(crate) fn put(&self, lease: Lease, history: u64) -> bool {
        let mut stock = self.stock();
        if stock.closed || stock.history != history {
            return false;
        }
        let length = stock.lengths.entry(lease.ttl).or_default();
        let has_room = length.leases.len() < self.0.limit.max(1);
        if has_room {
            // The youngest is taken first.
            let at = length.leases.partition_point(|other| other.from <= lease.from);
            length.leases.insert(at, lease);
        }
        has_room
    }

    /// Whether a lock that was granted with this lease may return it. A lock that was held for long
    /// does not: its lease would need a keepalive before it is used again.
    pub(crate) fn may_return(&self, lease: Lease) -> bool {
        self.0.limit > 0 && is_young(lease)
    }

    async fn fill(self, ttl: Duration, wanted: usize, history: u64) {
        let _filled = Filled(&self, ttl);
        let granted = join_all((0..wanted).map(|_| self.0.rpc.grant(ttl))).await;
        let granted = granted.into_iter().flatten();
        let late: Vec<_> = granted.filter(|lease| !self.put(*lease, history)).collect();
        // Others were returned meanwhile, or the client was closed, and `close` waits for this.
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

/// Whether a lease needs no keepalive before it is used.
pub(super) fn is_young(lease: Lease) -> bool {
    SystemEnv.now().since(lease.from) < lease.ttl / OLD_AFTER
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
