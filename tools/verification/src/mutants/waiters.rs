//! The waiters of flawed backends.

use std::{collections::HashSet, future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Busy, Error, LockName, Mutex, Signal, Waiter};
use tokio::sync::watch;

/// A waiter that gets no signal.
#[derive(Debug)]
pub(super) struct NeverSignalled;

#[async_trait]
impl Waiter for NeverSignalled {
    async fn next(&mut self) -> Signal {
        pending().await
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

/// A waiter that polls after every release.
#[derive(Debug)]
pub(super) struct WokenByAll {
    pub(super) waiter: Box<dyn Waiter>,
    pub(super) wake_all: watch::Receiver<()>,
}

#[async_trait]
impl Waiter for WokenByAll {
    async fn next(&mut self) -> Signal {
        tokio::select! {
            signal = self.waiter.next() => signal,
            Ok(()) = self.wake_all.changed() => Signal::Recheck,
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.waiter.leave().await
    }
}

/// A waiter whose queue entry stays alive after its process has ended, and blocks the queue.
#[derive(Debug)]
pub(super) struct Undead {
    pub(super) waiter: Option<Box<dyn Waiter>>,
    pub(super) name: LockName,
    /// The names whose queues are blocked.
    pub(super) blocked: Arc<Mutex<HashSet<LockName>>>,
    /// Whether its queue entry can be withdrawn.
    pub(super) leaves: bool,
}

#[async_trait]
impl Waiter for Undead {
    async fn next(&mut self) -> Signal {
        let Some(waiter) = &mut self.waiter else { pending().await };
        let signal = waiter.next().await;
        if self.blocked.lock().contains(&self.name) { pending().await } else { signal }
    }

    async fn leave(mut self: Box<Self>) -> Result<(), Error> {
        match self.waiter.take_if(|_| self.leaves) {
            Some(waiter) => waiter.leave().await,
            None => Ok(()),
        }
    }
}

impl Drop for Undead {
    fn drop(&mut self) {
        if self.waiter.is_some() {
            self.blocked.lock().insert(self.name.clone());
        }
    }
}

pub(super) fn never_polls(mut busy: Busy) -> Busy {
    busy.retry_after = Duration::from_secs(3600);
    busy
}
