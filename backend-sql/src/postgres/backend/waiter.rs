//! A waiter with an entry in the server's queue.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;
use lock_core::{Error, Request, Signal, SystemEnv, Waiter, jittered};
use tokio::sync::watch;

use crate::{
    check::Check,
    gate,
    postgres::{
        store::Postgres,
        waiting::{
            entries::{Notice, QueueEntry},
            listen::Delivery,
        },
    },
    tunables::{CHECK_AFTER_FAILURE, CHECK_PAUSE, postgres::LONGEST_CHECK_PAUSE},
};

#[derive(Debug)]
pub(super) struct QueueWaiter {
    store: Arc<Postgres>,
    request: Request,
    entry: Arc<QueueEntry>,
    /// Whether messages arrive at this client. If not, the waiter checks at short intervals.
    delivery: watch::Receiver<Delivery>,
    check: Check<bool>,
}

impl QueueWaiter {
    pub(super) fn new(store: Arc<Postgres>, request: &Request) -> Self {
        let entry = store.entries.add(request);
        store.keep_listening();
        let delivery = store.delivery();
        Self { store, request: request.clone(), entry, delivery, check: Check::default() }
    }

    pub(super) fn entry(&self) -> Arc<QueueEntry> {
        Arc::clone(&self.entry)
    }

    /// Checks at intervals, and returns when it is this entry's turn.
    async fn check(&mut self) {
        let Self { store, request, entry, check, .. } = self;
        loop {
            if !check.is_running() {
                // The others before this entry must check first.
                let others = entry.others.load(Ordering::Relaxed);
                let pause =
                    CHECK_PAUSE.saturating_mul(others.saturating_add(1)).min(LONGEST_CHECK_PAUSE);
                tokio::time::sleep(jittered(&SystemEnv, pause)).await;
            }
            let begin = || {
                let (store, name) = (Arc::clone(store), request.name.clone());
                let entry = Arc::clone(entry);
                async move {
                    // Before the gate: other attempts may pass it meanwhile.
                    store.server.wait_for_idle().await;
                    let _pass = gate::attempt(Some(&store.server.gate)).await?;
                    store.is_turn(&name, &entry.id).await
                }
            };
            match check.answer(begin).await {
                Ok(true) => return,
                Ok(false) => {}
                // The core polls as well, and reports its errors.
                Err(error) => {
                    tracing::trace!(target: "leasehold", name = request.name.as_str(), %error, "check failed");
                    tokio::time::sleep(CHECK_AFTER_FAILURE).await;
                }
            }
        }
    }
}

impl Drop for QueueWaiter {
    fn drop(&mut self) {
        self.store.entries.remove(self.request.owner, &self.entry);
    }
}

#[async_trait]
impl Waiter for QueueWaiter {
    async fn next(&mut self) -> Signal {
        loop {
            self.store.keep_listening();
            let listening = self.delivery.borrow_and_update().listening;
            let (mut changes, entry) = (self.delivery.clone(), self.entry());
            tokio::select! {
                () = entry.wake.notified() => return Signal::Recheck,
                () = self.check(), if !listening => {
                    entry.notify(Notice::Ask);
                    return Signal::Recheck;
                }
                Ok(()) = changes.changed() => {}
            }
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        // All its attempts were answered. If none entered the queue, there is nothing to remove.
        if !self.entry.queued.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _pass = gate::attempt(Some(&self.store.server.gate)).await?;
        self.store.leave(&self.request, &self.entry.id).await
    }
}
