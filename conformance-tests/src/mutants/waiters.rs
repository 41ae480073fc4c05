//! The places in a queue that a flawed backend gives.

use std::{future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Env as _, Error, Request, Signal, SystemEnv, Waiter};
use tokio::sync::watch;

/// A place that gets no signal.
#[derive(Debug)]
pub(super) struct Deaf;

#[async_trait]
impl Waiter for Deaf {
    async fn next(&mut self) -> Signal {
        pending().await
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

/// A place that asks again after every release.
#[derive(Debug)]
pub(super) struct OfTheHerd {
    pub(super) turn: Box<dyn Waiter>,
    pub(super) herd: watch::Receiver<()>,
}

#[async_trait]
impl Waiter for OfTheHerd {
    async fn next(&mut self) -> Signal {
        tokio::select! {
            signal = self.turn.next() => signal,
            Ok(()) = self.herd.changed() => Signal::Recheck,
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.turn.leave().await
    }
}

/// A place whose heartbeat goes on after its process has gone.
#[derive(Debug)]
pub(super) struct Undead {
    pub(super) turn: Option<Box<dyn Waiter>>,
    pub(super) store: Arc<dyn Backend>,
    pub(super) request: Request,
    /// Whether it can be given up.
    pub(super) leaves: bool,
}

#[async_trait]
impl Waiter for Undead {
    async fn next(&mut self) -> Signal {
        match &mut self.turn {
            Some(turn) => turn.next().await,
            None => pending().await,
        }
    }

    async fn leave(mut self: Box<Self>) -> Result<(), Error> {
        match self.turn.take_if(|_| self.leaves) {
            Some(turn) => turn.leave().await,
            None => Ok(()),
        }
    }
}

impl Drop for Undead {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        let (store, mut request) = (Arc::clone(&self.store), self.request.clone());
        tokio::spawn(async move {
            let _alive = turn;
            loop {
                request.sent = SystemEnv.now();
                // The answer does not matter.
                let _ = store.try_acquire(&request).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
}
