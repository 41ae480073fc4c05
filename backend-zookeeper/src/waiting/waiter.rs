//! The trait `Waiter`: how the core waits in an entry.

use std::{future::pending, sync::Arc};

use async_trait::async_trait;
use lock_core::{BoxFuture, Env as _, Error, Instant, Signal, SystemEnv, Waiter};

use super::queue::{WaiterEntry, Waiters};
use crate::tunables::POLL;

/// No waiter is kept for as long as this.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Waits in an entry, with a watch on the last of the entries that it waits for.
pub(crate) struct ZooKeeperWaiter {
    entry: Arc<WaiterEntry>,
    waiters: Waiters,
    watch: Option<BoxFuture<()>>,
}

impl std::fmt::Debug for ZooKeeperWaiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZooKeeperWaiter").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl ZooKeeperWaiter {
    /// A waiter in an entry that was just made.
    pub(crate) fn start(entry: WaiterEntry, waiters: &Waiters) -> Self {
        let entry = Arc::new(entry);
        if !entry.own.session.take(&entry.own.path, NEVER) {
            entry.lose();
        }
        waiters.add(&entry);
        Self { entry, waiters: waiters.clone(), watch: None }
    }

    /// Waits until the entry before it has changed or is gone. The attempt that follows reads the
    /// queue, and sets the entry that is watched next.
    async fn predecessor_changed(&mut self) -> Result<(), Error> {
        if self.watch.is_none() {
            let Some(path) = self.entry.predecessor() else { return pending().await };
            // An entry that moves to another session is deleted and made again in one step.
            self.watch = match self.entry.own.session.watch(&path).await? {
                Some(watcher) => Some(Box::pin(async { drop(watcher.changed().await) })),
                None => Some(Box::pin(async {})),
            };
        }
        if let Some(watch) = &mut self.watch {
            watch.await;
        }
        self.watch = None;
        self.entry.set_predecessor(None);
        Ok(())
    }
}

impl Drop for ZooKeeperWaiter {
    fn drop(&mut self) {
        self.waiters.remove(self.entry.owner);
        // If it has not left the queue, the entry ends as that of a dead client.
        self.entry.own.session.end_waiting(&self.entry.own.path);
    }
}

#[async_trait]
impl Waiter for ZooKeeperWaiter {
    async fn next(&mut self) -> Signal {
        while !self.entry.is_lost() {
            match self.predecessor_changed().await {
                Ok(()) => return Signal::Recheck,
                Err(_) => SystemEnv.sleep(POLL).await,
            }
        }
        Signal::Lost("its session ended, or its entry was removed".into())
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        let own = &self.entry.own;
        let deleted = own.session.delete(&own.path, None).await;
        deleted.map_err(|error| error.at("zookeeper", "leave"))?;
        own.session.forget(&own.path);
        Ok(())
    }
}

/// The waiter of an abandoned owner, which has no entry.
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
