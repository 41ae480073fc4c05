//! The trait, in terms of the store's steps.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{
    Memory,
    store::{Answer, Now},
};
use crate::{
    Attempt, Backend, Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant, Guarantees, Init,
    Instant, LockName, LockState, LossReason, Outcome, Page, Release, Released, Renewal, Request,
    Signal, StoreSettings, Turn, check_token,
};

impl Memory {
    fn now(&self) -> Now<'_> {
        Now { clock: self.env.now(), env: &*self.env }
    }

    fn refuse(operation: &'static str, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, message).at("memory", operation)
    }

    fn exhausted() -> Error {
        Self::refuse("acquire", ErrorKind::Config, "the fencing tokens are used up")
    }

    /// A request is `Busy` or granted here; the quarantine of a durable store does not exist.
    fn place(&self, request: &Request) -> Result<Enqueued, Error> {
        let now = self.now();
        let mut store = self.store();
        Ok(match store.attempt(request, now).ok_or_else(Self::exhausted)? {
            Answer::Granted(grant) => Enqueued::Granted(grant),
            Answer::Busy(busy) => {
                let (wake, signals) = mpsc::unbounded_channel();
                store.queue(request, wake, now);
                let turn = MemoryTurn { memory: self.clone(), request: request.clone(), signals };
                Enqueued::Waiting(Box::new(turn), busy)
            }
        })
    }

    fn check_floor(&self, operation: &'static str, token: FencingToken) -> Result<(), Error> {
        let longest = self.store().promised.longest_lease;
        check_token(token, self.env.wall_micros(), longest)
            .map_err(|error| error.at("memory", operation))
    }
}

#[async_trait]
impl Backend for Memory {
    fn kind(&self) -> &'static str {
        "memory"
    }

    async fn identity(&self) -> Result<String, Error> {
        Ok(format!("memory:{}", self.number))
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        Arc::clone(&self.store().promised)
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        if request.floor > FencingToken::ZERO {
            self.check_floor("acquire", request.floor)?;
        }
        let now = self.now();
        Ok(match self.store().attempt(request, now).ok_or_else(Self::exhausted)? {
            Answer::Granted(grant) => Attempt::Granted(grant),
            Answer::Busy(busy) => Attempt::Busy(busy),
        })
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        if request.floor > FencingToken::ZERO {
            self.check_floor("enqueue", request.floor)?;
        }
        self.place(request)
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let now = self.now();
        self.store().abandon(&request.name, request.owner, now);
        Ok(())
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let now = self.now();
        let mut store = self.store();
        let renew = |grant: &&Grant| {
            if store.renew(grant, now) {
                Renewal::Renewed { from: sent, lease: grant.lease }
            } else {
                let taken =
                    store.look(&grant.name, now).is_some_and(|state| state.holder.is_some());
                Renewal::Lost(if taken { LossReason::TakenOver } else { LossReason::Gone })
            }
        };
        grants.iter().map(renew).collect()
    }

    async fn release(&self, grant: &Grant, how: Release<'_>) -> Result<Released, Error> {
        // The next request goes last into the queue before the lock is handed over.
        let next = how.next.map(|next| self.place(next)).transpose()?;
        let now = self.now();
        let released = self.store().release(&grant.name, grant.owner, how.keep, now);
        let outcome = if released { Outcome::Released } else { Outcome::NotHeld };
        Ok(Released { outcome, next })
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.check_floor("raise", token)?;
        let now = self.now();
        if self.store().raise(grant, token, now) {
            Ok(())
        } else {
            let message = "the grant whose token was to be raised is gone";
            Err(Self::refuse("raise", ErrorKind::NotHeld, message).on(&grant.name))
        }
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let now = self.now();
        Ok(self.store().look(name, now))
    }

    async fn list(&self, _from: Option<Cursor>) -> Result<Page, Error> {
        let now = self.now();
        let mut store = self.store();
        let names = store.names();
        let states = names.iter().filter_map(|name| store.look(name, now));
        let locks = states.filter(|state| state.holder.is_some()).collect();
        Ok(Page { locks, next: None })
    }

    async fn force_release(&self, name: &LockName) -> Result<Outcome, Error> {
        let now = self.now();
        let freed = self.store().force(name, now);
        Ok(if freed { Outcome::Released } else { Outcome::NotHeld })
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        let refused = init.refuse_restored("it lives in this process, and has no older state");
        refused.map_err(|error| error.at("memory", "init"))?;
        init.refuse_reset_tokens().map_err(|error| error.at("memory", "init"))?;
        let mut store = self.store();
        if let Some(longest) = init.longest_lease {
            if longest < Self::SHORTEST_LEASE {
                let message = "the longest lease is below this store's shortest, 10ms";
                return Err(Self::refuse("init", ErrorKind::InvalidInput, message));
            }
            let mut promised = (*store.promised).clone();
            promised.longest_lease = longest;
            store.promised = Arc::new(promised);
        }
        Ok(StoreSettings::new(store.promised.longest_lease, None))
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn close(&self) {}
}

#[derive(Debug)]
struct MemoryTurn {
    memory: Memory,
    request: Request,
    signals: mpsc::UnboundedReceiver<Signal>,
}

#[async_trait]
impl Turn for MemoryTurn {
    async fn next(&mut self) -> Signal {
        // The store drops a place that it passes over.
        self.signals.recv().await.unwrap_or_else(|| Signal::Lost("passed over".into()))
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.memory.abandon(&self.request).await
    }
}
