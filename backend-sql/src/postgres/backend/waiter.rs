//! A waiter with an entry in a queue on the server.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;
use lock_core::{Error, Request, Signal, SystemEnv, Waiter, jittered};
use tokio::sync::watch;

use crate::{
    gate,
    look::Look,
    postgres::{
        store::Postgres,
        waiting::{
            entries::{QueueEntry, Told},
            listen::Heard,
        },
    },
    tunables::{LOOK, LOOK_AFTER_FAILURE, postgres::LONGEST_LOOK},
};

#[derive(Debug)]
pub(super) struct QueueWaiter {
    store: Arc<Postgres>,
    request: Request,
    entry: Arc<QueueEntry>,
    /// Whether this client is told when it is its turn; where not, it looks.
    told: watch::Receiver<Heard>,
    look: Look<bool>,
}

impl QueueWaiter {
    pub(super) fn new(store: Arc<Postgres>, request: &Request) -> Self {
        let entry = store.entries().enter(request);
        let told = store.told();
        Self { store, request: request.clone(), entry, told, look: Look::default() }
    }

    pub(super) fn entry(&self) -> Arc<QueueEntry> {
        Arc::clone(&self.entry)
    }

    /// Ends when it is this entry's turn, by looking now and then.
    async fn look(&mut self) {
        let Self { store, request, entry, look, .. } = self;
        loop {
            if !look.is_on_its_way() {
                // One with others before it comes to its turn no sooner than they look.
                let others = entry.others.load(Ordering::Relaxed);
                let pause = LOOK.saturating_mul(others.saturating_add(1)).min(LONGEST_LOOK);
                tokio::time::sleep(jittered(&SystemEnv, pause)).await;
            }
            let begin = || {
                let (store, name) = (Arc::clone(store), request.name.clone());
                let entry = Arc::clone(entry);
                async move {
                    // Before the pass: other attempts need it meanwhile.
                    store.server.idle().await;
                    let _pass = gate::attempt(Some(&store.server.gate)).await?;
                    store.is_turn(&name, &entry.id).await
                }
            };
            match look.answer(begin).await {
                Ok(true) => return,
                Ok(false) => {}
                // The core's own poll is behind this, and reports what it meets.
                Err(error) => {
                    tracing::debug!(name = request.name.as_str(), %error, "look failed");
                    tokio::time::sleep(LOOK_AFTER_FAILURE).await;
                }
            }
        }
    }
}

impl Drop for QueueWaiter {
    fn drop(&mut self) {
        self.store.entries().remove(self.request.owner, &self.entry);
    }
}

#[async_trait]
impl Waiter for QueueWaiter {
    async fn next(&mut self) -> Signal {
        loop {
            let told = self.told.borrow_and_update().now;
            let (mut changes, entry) = (self.told.clone(), self.entry());
            tokio::select! {
                () = entry.wake.notified() => return Signal::Recheck,
                () = self.look(), if !told => {
                    entry.tell(Told::Ask);
                    return Signal::Recheck;
                }
                Ok(()) = changes.changed() => {}
            }
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        // Every attempt of it was answered: one that never got as far as the queue has left nothing.
        if !self.entry.queued.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _pass = gate::attempt(Some(&self.store.server.gate)).await?;
        self.store.leave(&self.request, &self.entry.id).await
    }
}
