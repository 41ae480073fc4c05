//! The trait `Waiter`: how the core waits in a queue entry.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Error, Signal, Waiter};
use tokio::task::AbortHandle;

use super::{
    queue::{WaiterEntry, Waiters},
    ranges::WatchedRange,
    watch::Watch,
};
use crate::{leases::Keepalives, rpc::Rpc};

/// Waits in a queue entry.
#[derive(Debug)]
pub(crate) struct EtcdWaiter {
    pub(crate) entry: Arc<WaiterEntry>,
    keepalive: AbortHandle,
    waiters: Waiters,
    rpc: Rpc,
    /// The watch ends with the last waiter and its store.
    watch: Arc<Watch>,
}

impl EtcdWaiter {
    /// A waiter in an entry that was just made.
    pub(crate) fn start(
        entry: WaiterEntry,
        waiters: &Waiters,
        keepalives: &Keepalives,
        rpc: &Rpc,
        watch: &Arc<Watch>,
    ) -> Self {
        let entry = Arc::new(entry);
        waiters.add(&entry);
        let keepalive = Arc::clone(&entry).keep_alive(keepalives.clone());
        Self {
            entry,
            keepalive: tokio::spawn(keepalive).abort_handle(),
            waiters: waiters.clone(),
            rpc: rpc.clone(),
            watch: Arc::clone(watch),
        }
    }

    /// Sets the key range whose watch wakes it.
    pub(crate) fn watch_range(&self, range: WatchedRange) {
        self.entry.watch_range(range);
    }
}

impl Drop for EtcdWaiter {
    fn drop(&mut self) {
        // After a grant, the renewals of the lock keep the lease alive. Otherwise the entry must
        // end.
        self.keepalive.abort();
        self.waiters.remove(self.entry.owner);
    }
}

#[async_trait]
impl Waiter for EtcdWaiter {
    async fn next(&mut self) -> Signal {
        self.watch.run();
        if !self.entry.is_lost() {
            self.entry.woken().await;
        }
        if self.entry.is_lost() {
            return Signal::Lost("its lease ended or was revoked".into());
        }
        Signal::Recheck
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        let revoked = self.rpc.revoke(self.entry.lease().id).await;
        revoked.map(drop).map_err(|failure| Error::from(failure).at("etcd", "leave"))
    }
}

/// The waiter of an abandoned owner, which has no entry.
#[derive(Debug)]
pub(crate) struct AbandonedWaiter;

#[async_trait]
impl Waiter for AbandonedWaiter {
    async fn next(&mut self) -> Signal {
        Signal::Lost("its owner was abandoned".into())
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
