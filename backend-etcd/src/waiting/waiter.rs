//! The handle by which the core waits in an entry.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Error, Signal, Waiter};
use tokio::task::AbortHandle;

use super::{
    names::Watched,
    queue::{WaiterEntry, Waiters},
    watch::Watch,
};
use crate::{leases::Keepalives, rpc::Rpc};

/// Waits in an entry.
#[derive(Debug)]
pub(crate) struct EtcdWaiter {
    pub(crate) entry: Arc<WaiterEntry>,
    keepalive: AbortHandle,
    waiters: Waiters,
    rpc: Rpc,
    /// Ends with the last of its users.
    _watch: Arc<Watch>,
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
            _watch: Arc::clone(watch),
        }
    }

    /// Sets what tells of the end that it waits for.
    pub(crate) fn hear(&self, watched: Watched) {
        self.entry.hear(watched);
    }
}

impl Drop for EtcdWaiter {
    fn drop(&mut self) {
        // Once granted, the lock's renewals keep the lease alive; otherwise the entry must end.
        self.keepalive.abort();
        self.waiters.remove(self.entry.owner);
    }
}

#[async_trait]
impl Waiter for EtcdWaiter {
    async fn next(&mut self) -> Signal {
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

/// For an abandoned owner, which has no entry.
#[derive(Debug)]
pub(crate) struct RefusedWaiter;

#[async_trait]
impl Waiter for RefusedWaiter {
    async fn next(&mut self) -> Signal {
        Signal::Lost("its owner was abandoned".into())
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
