//! A place in a queue on the server.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;
use lock_core::{Error, Grant, Request, Signal, SystemEnv, Turn, jittered};
use tokio::sync::watch;

use super::{
    backend::Postgres,
    places::{Given, Place},
};
use crate::{dialect::Dialect as _, gate, turn::LOOK};

#[derive(Debug)]
pub(super) struct Queued {
    store: Arc<Postgres>,
    request: Request,
    place: Arc<Place>,
    /// Whether this client is told when it is its turn; where not, it looks.
    told: watch::Receiver<bool>,
}

impl Queued {
    pub(super) fn new(store: Arc<Postgres>, request: &Request) -> Self {
        let place = store.places().enter(request);
        let told = store.told();
        Self { store, request: request.clone(), place, told }
    }

    pub(super) fn place(&self) -> Arc<Place> {
        Arc::clone(&self.place)
    }

    fn given(&self, given: Given) -> Grant {
        if given.more {
            self.store.waited.note(self.request.owner);
        }
        Grant::new(&self.request, given.token).pushed(Postgres::TURN)
    }

    /// Ends when it is this place's turn, by looking now and then.
    async fn look(&self) {
        loop {
            tokio::time::sleep(jittered(&SystemEnv, LOOK)).await;
            let look = async {
                let _pass = gate::attempt(self.store.gate()).await?;
                self.store.is_turn(&self.request.name, &self.place.id).await
            };
            match look.await {
                Ok(true) => return,
                Ok(false) => {}
                // The core's own poll is behind this, and reports what it meets.
                Err(error) => {
                    tracing::debug!(name = %self.request.name, %error, "look failed");
                    tokio::time::sleep(LOOK * 20).await;
                }
            }
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.store.places().remove(self.request.owner, &self.place);
    }
}

#[async_trait]
impl Turn for Queued {
    async fn next(&mut self) -> Signal {
        loop {
            let told = *self.told.borrow_and_update();
            let mut changes = self.told.clone();
            tokio::select! {
                () = self.place.wake.notified() => return match self.place.take_given() {
                    Some(given) => Signal::Granted(self.given(given)),
                    None => Signal::Recheck,
                },
                () = self.look(), if !told => return Signal::Recheck,
                Ok(()) = changes.changed() => {}
            }
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        // Every attempt of it was answered: one that never got as far as the queue has left nothing.
        if !self.place.queued.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _pass = gate::attempt(self.store.gate()).await?;
        self.store.leave(&self.request, &self.place.id).await
    }
}
