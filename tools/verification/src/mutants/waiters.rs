//! The waiters of flawed backends.

use std::{future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Env as _, Error, Request, Signal, SystemEnv, Waiter};
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

/// A waiter whose heartbeat continues after its process has ended.
#[derive(Debug)]
pub(super) struct Undead {
    pub(super) waiter: Option<Box<dyn Waiter>>,
    pub(super) store: Arc<dyn Backend>,
    pub(super) request: Request,
    /// Whether its queue entry can be withdrawn.
    pub(super) leaves: bool,
}

#[async_trait]
impl Waiter for Undead {
    async fn next(&mut self) -> Signal {
        match &mut self.waiter {
            Some(waiter) => waiter.next().await,
            None => pending().await,
        }
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
        let Some(waiter) = self.waiter.take() else { return };
        let (store, mut request) = (Arc::clone(&self.store), self.request.clone());
        tokio::spawn(async move {
            let _alive = waiter;
            loop {
                request.sent = SystemEnv.now();
                // The answer does not matter.
                let _ = store.try_acquire(&request).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
}
