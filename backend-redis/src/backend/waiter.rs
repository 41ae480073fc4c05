//! A waiter's entry in a queue on the server.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Error, Request, Signal, Waiter};
use tokio::sync::mpsc;

use crate::{
    scripts::{self, reply::Answer},
    store::Store,
    waiting::Pushes,
};

#[derive(Debug)]
pub(crate) struct RedisWaiter {
    store: Arc<Store>,
    pushes: Arc<Pushes>,
    request: Request,
    number: u64,
    signals: mpsc::UnboundedReceiver<Signal>,
}

impl RedisWaiter {
    /// Registers the waiter in this process. This happens before the server knows of it, so that no
    /// push is missed.
    pub(crate) fn enter(store: &Arc<Store>, pushes: &Arc<Pushes>, request: &Request) -> Box<Self> {
        let (number, signals) = pushes.enter(store.keys.bucket(&request.name), request);
        let (store, pushes, request) = (Arc::clone(store), Arc::clone(pushes), request.clone());
        Box::new(Self { store, pushes, request, number, signals })
    }
}

impl Drop for RedisWaiter {
    fn drop(&mut self) {
        self.pushes.remove(self.request.owner, self.number);
    }
}

#[async_trait]
impl Waiter for RedisWaiter {
    async fn next(&mut self) -> Signal {
        self.signals.recv().await.unwrap_or_else(|| Signal::Lost("the queue entry is gone".into()))
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        abandon(&self.store, &self.request).await
    }
}

/// Abandons an attempt: its owner leaves the queue, and a late request of it is granted nothing.
pub(crate) async fn abandon(store: &Store, request: &Request) -> Result<(), Error> {
    let (name, owner) = (&request.name, request.owner);
    let own = scripts::abandon(owner);
    let asked = store.run_for(name, owner, &scripts::ABANDON, &own, Answer::number).await;
    asked.map(drop).map_err(|error| error.at("redis", "abandon").on(name))
}
