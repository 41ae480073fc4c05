//! The trait `Waiter`: how the core waits in an entry.

use std::{future::pending, sync::Arc};

use async_trait::async_trait;
use lock_core::{BoxFuture, Env as _, Error, Instant, Signal, SystemEnv, Waiter};
use zookeeper_client::EventType;

use super::queue::{Ahead, WaiterEntry, Waiters};
use crate::{
    keys::layout::Layout,
    session::{Ending, Write},
    tunables::POLL,
};

/// No waiter is kept for as long as this.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// What a waiter has seen of the entries before its own.
enum Change {
    /// None is left.
    IsFirst,
    /// The only one has changed, or all are gone.
    MayBeFirst,
    Other,
}

/// Waits in an entry, with a watch on the last of the entries that it waits for.
pub(crate) struct ZooKeeperWaiter {
    pub(crate) entry: Arc<WaiterEntry>,
    waiters: Waiters,
    layout: Layout,
    watch: Option<BoxFuture<EventType>>,
    /// Whether it was told that its turn has come.
    is_told: bool,
}

impl std::fmt::Debug for ZooKeeperWaiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZooKeeperWaiter").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl ZooKeeperWaiter {
    /// A waiter in an entry that was just made.
    pub(crate) fn start(entry: WaiterEntry, waiters: &Waiters, layout: &Layout) -> Self {
        let entry = Arc::new(entry);
        entry.held.session.end_at(&entry.held.path, NEVER, Ending::Other);
        waiters.add(&entry);
        let (waiters, layout) = (waiters.clone(), layout.clone());
        Self { entry, waiters, layout, watch: None, is_told: false }
    }

    /// Waits until the last entry before it has changed.
    async fn predecessor_gone(&mut self) -> Result<Change, Error> {
        let Some(Ahead { last, count, .. }) = self.entry.ahead() else {
            return Ok(Change::IsFirst);
        };
        if let Some(watch) = &mut self.watch {
            watch.await;
            self.watch = None;
            if count > 1 {
                self.entry.pass_gone(&self.layout).await?;
            }
            if count == 1 || self.entry.ahead().is_none() {
                return Ok(Change::MayBeFirst);
            }
            return Ok(Change::Other);
        }
        let path = format!("{}/{}", self.layout.directory(&self.entry.name), last.node);
        // An entry that moves to another session is deleted and made again in one step.
        let (exists, watcher) = self.entry.held.session.watch(&path).await?;
        match exists {
            true => self.watch = Some(Box::pin(async { watcher.changed().await.event_type })),
            false => self.entry.pass_gone(&self.layout).await?,
        }
        Ok(Change::Other)
    }
}

impl Drop for ZooKeeperWaiter {
    fn drop(&mut self) {
        self.waiters.remove(self.entry.owner);
        // If it has not left the queue, the entry ends as that of a dead client.
        self.entry.held.session.end_waiting(&self.entry.held.path);
    }
}

#[async_trait]
impl Waiter for ZooKeeperWaiter {
    async fn next(&mut self) -> Signal {
        loop {
            if self.entry.is_lost() {
                return Signal::Lost("its session ended, or its entry was removed".into());
            }
            match self.predecessor_gone().await {
                Ok(Change::Other) => {}
                // The attempt that follows reads whether the entry is gone.
                Ok(Change::MayBeFirst) => return Signal::Recheck,
                Ok(Change::IsFirst) if self.is_told => return pending().await,
                Ok(Change::IsFirst) => {
                    self.is_told = true;
                    return Signal::Recheck;
                }
                Err(_) => SystemEnv.sleep(POLL).await,
            }
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        let held = &self.entry.held;
        let deleted = held.session.write(&[Write::Delete(&held.path, None)]).await;
        match deleted {
            Err(failure) if !failure.is_no_node() => {
                Err(Error::from(failure).at("zookeeper", "leave"))
            }
            _ => {
                held.session.forget(&held.path);
                Ok(())
            }
        }
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
