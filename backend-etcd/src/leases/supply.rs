//! Supplies leases for grants, waiters and tombstones, from the pool or from etcd.

use std::time::Duration;

use lock_core::{Env as _, Error, Mutex, SystemEnv};

use super::{
    Keepalives,
    pool::{LeasePool, is_young},
};
use crate::{
    rpc::{Lease, Rpc, whole_seconds},
    tunables::TOMBSTONE_LIFE,
};

#[derive(Debug)]
pub(crate) struct Leases {
    rpc: Rpc,
    keepalives: Keepalives,
    pub(crate) pool: LeasePool,
    /// The shortest TTL that etcd grants.
    shortest: Duration,
    /// The lease that all tombstones of the present minute share.
    tombstones: Mutex<Option<Lease>>,
}

impl Leases {
    /// Keeps a pool of at most `limit` leases of each length. `probe` is an unused lease of the
    /// shortest length that etcd grants, and of this history.
    pub(crate) fn new(
        rpc: Rpc,
        keepalives: Keepalives,
        limit: usize,
        probe: Lease,
        history: u64,
    ) -> Self {
        let pool = LeasePool::new(rpc.clone(), limit, history);
        pool.put(probe, history);
        Self { rpc, keepalives, pool, shortest: probe.ttl, tombstones: Mutex::default() }
    }

    /// A lease that no key uses in this history.
    pub(crate) async fn take(&self, span: Duration, history: u64) -> Result<Lease, Error> {
        let ttl = Duration::from_secs(whole_seconds(span)).max(self.shortest);
        while let Some(pooled) = self.pool.take(ttl, history) {
            if is_young(pooled) {
                return Ok(pooled);
            }
            match Box::pin(self.keepalives.extend(pooled.id)).await {
                Ok(Some(lease)) => return Ok(lease),
                Ok(None) => {}
                // A keepalive of another pooled lease would fail the same way.
                Err(_) => break,
            }
        }
        Ok(Box::pin(self.rpc.grant(ttl)).await?)
    }

    /// The same, and it lasts for the whole span from now on.
    pub(crate) async fn take_full(&self, span: Duration, history: u64) -> Result<Lease, Error> {
        let until = SystemEnv.now() + span;
        let lease = self.take(span, history).await?;
        if lease.from + lease.ttl >= until {
            return Ok(lease);
        }
        // A pooled lease, a part of which has passed.
        match self.keepalives.extend(lease.id).await {
            Ok(Some(lease)) => Ok(lease),
            _ => Ok(self.rpc.grant(lease.ttl).await?),
        }
    }

    /// Returns an unused lease for the next attempt. Above the limit of the pool it expires.
    pub(crate) fn put_back(&self, lease: Lease, history: u64) {
        self.pool.put(lease, history);
    }

    /// The lease for a tombstone. It lasts at least [`TOMBSTONE_LIFE`] from now on, and at least as
    /// long as the lease that a late request may ask for.
    pub(crate) async fn for_tombstone(&self, span: Duration) -> Result<Lease, Error> {
        if span > TOMBSTONE_LIFE {
            return Ok(self.rpc.grant(span).await?);
        }
        let open = *self.tombstones.lock();
        let now = SystemEnv.now();
        if let Some(lease) = open.filter(|lease| now.since(lease.from) < TOMBSTONE_LIFE) {
            return Ok(lease);
        }
        let lease = self.rpc.grant(TOMBSTONE_LIFE * 2).await?;
        *self.tombstones.lock() = Some(lease);
        Ok(lease)
    }

    /// Call this if the lease for tombstones is gone.
    pub(crate) fn forget_tombstones(&self) {
        *self.tombstones.lock() = None;
    }
}
