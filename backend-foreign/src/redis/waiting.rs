//! The waiters of this client, and the messages that wake them.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use backend_redis::node::{Listener, Node};
use lock_core::{Error, Mutex, Signal, Waiter};
use tokio::sync::Notify;

use crate::tunables::SWEEP_SUBSCRIPTIONS;

/// Waiters by the channel on which the other library announces releases, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    by_channel: Mutex<HashMap<String, Vec<Entry>>>,
    entered: AtomicU64,
}

impl Waiters {
    /// Whether a waiter waits for a message on this channel.
    pub(super) fn has_any(&self, channel: &str) -> bool {
        self.by_channel.lock().contains_key(channel)
    }
}

#[derive(Debug)]
struct Entry {
    number: u64,
    wake: Arc<Notify>,
}

/// A message wakes one waiter, which then makes an attempt.
impl Listener for Waiters {
    /// This client has no channel of its own, only those of the locks.
    fn listens(&self) -> bool {
        false
    }

    fn on_message(&self, channel: &[u8], _: &[u8]) {
        if let Ok(channel) = std::str::from_utf8(channel)
            && let Some(oldest) = self.by_channel.lock().get(channel).and_then(|all| all.first())
        {
            oldest.wake.notify_one();
        }
    }

    fn missed(&self) {
        for waiter in self.by_channel.lock().values().flatten() {
            waiter.wake.notify_one();
        }
    }
}

/// A waiter that a message wakes. The core also polls.
#[derive(Debug)]
pub(super) struct SubscribedWaiter {
    waiters: Arc<Waiters>,
    channel: String,
    number: u64,
    wake: Arc<Notify>,
}

impl SubscribedWaiter {
    /// Subscribes. Call this before the attempt, so that no release after a `Busy` is missed.
    pub(super) async fn enter(
        waiters: &Arc<Waiters>,
        node: &Node,
        channel: String,
    ) -> Result<Self, Error> {
        let number = waiters.entered.fetch_add(1, Ordering::Relaxed);
        let wake: Arc<Notify> = Arc::default();
        let entry = Entry { number, wake: Arc::clone(&wake) };
        waiters.by_channel.lock().entry(channel.clone()).or_default().push(entry);
        let waiters = Arc::clone(waiters);
        let waiter = Self { waiters, channel, number, wake };
        if number.is_multiple_of(SWEEP_SUBSCRIPTIONS) {
            node.unsubscribe(|channel| waiter.waiters.has_any(channel)).await;
        }
        node.subscribe(&waiter.channel).await?;
        Ok(waiter)
    }
}

impl Drop for SubscribedWaiter {
    fn drop(&mut self) {
        let mut all = self.waiters.by_channel.lock();
        let Some(here) = all.get_mut(&self.channel) else { return };
        here.retain(|entry| entry.number != self.number);
        match here.first() {
            // A message may have woken this waiter, and it leaves without an attempt: the next one
            // must try.
            Some(oldest) => oldest.wake.notify_one(),
            None => _ = all.remove(&self.channel),
        }
    }
}

#[async_trait]
impl Waiter for SubscribedWaiter {
    async fn next(&mut self) -> Signal {
        self.wake.notified().await;
        Signal::Recheck
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

/// A waiter that no message wakes: the core polls.
#[derive(Debug)]
pub(super) struct PollingWaiter;

#[async_trait]
impl Waiter for PollingWaiter {
    async fn next(&mut self) -> Signal {
        std::future::pending().await
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
