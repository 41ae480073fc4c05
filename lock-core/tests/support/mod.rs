//! A backend whose answers a test can hold back.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant, Guarantees, Init,
    Instant, LockName, LockState, Memory, Outcome, Page, Quarantined, Release, Released, Renewal,
    Request, Signal, StoreSettings, Turn,
};
use tokio::sync::Notify;

/// A place whose signals are not passed on.
#[derive(Debug)]
struct Deaf(Box<dyn Turn>);

#[async_trait]
impl Turn for Deaf {
    async fn next(&mut self) -> Signal {
        std::future::pending().await
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.0.leave().await
    }
}

/// The memory backend behind a gate.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    pub(crate) memory: Memory,
    /// Attempts fail, as with a store that is down.
    pub(crate) down: AtomicBool,
    /// Attempts are carried out, and their answers wait for `open`.
    pub(crate) shut: AtomicBool,
    pub(crate) open: Notify,
    /// Attempts wait for `open` and are refused.
    pub(crate) broken: AtomicBool,
    /// Releases wait for `open`, and are carried out then unless the store was closed meanwhile.
    pub(crate) slow: AtomicBool,
    closed: AtomicBool,
    /// Requests for a place are never answered.
    pub(crate) mute: AtomicBool,
    /// Places hear nothing and are to ask at once.
    pub(crate) deaf: AtomicBool,
    /// The next release that carries a request takes a place for it, and is refused; the one after it
    /// carries nothing.
    pub(crate) halves: AtomicBool,
    refused: AtomicBool,
    /// Until when nothing is granted.
    pub(crate) quarantine: OnceLock<tokio::time::Instant>,
    /// How many owners were abandoned.
    pub(crate) abandoned: AtomicUsize,
    /// How many attempts have been made.
    pub(crate) attempts: AtomicUsize,
    pub(crate) attempted: Notify,
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    fn quarantined(&self) -> Option<Quarantined> {
        let remaining = self.quarantine.get()?.duration_since(tokio::time::Instant::now());
        (!remaining.is_zero()).then(|| Quarantined { remaining, why: "planted".into() })
    }

    /// Waits for the next attempt to reach the store.
    pub(crate) async fn next_attempt(&self) {
        self.attempted.notified().await;
    }
}

#[async_trait]
impl Backend for Gate {
    fn kind(&self) -> &'static str {
        "gate"
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.memory.guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        self.attempted.notify_one();
        if self.down.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "down"));
        }
        if let Some(told) = self.quarantined() {
            return Ok(Attempt::Quarantined(told));
        }
        if self.broken.load(Ordering::SeqCst) {
            self.open.notified().await;
            return Err(Error::new(ErrorKind::Auth, "refused"));
        }
        let answer = self.memory.try_acquire(request).await;
        if self.shut.load(Ordering::SeqCst) {
            self.open.notified().await;
        }
        answer
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        if self.mute.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if let Some(told) = self.quarantined() {
            return Ok(Enqueued::Quarantined(told));
        }
        match self.memory.enqueue(request).await? {
            Enqueued::Waiting(turn, mut busy) if self.deaf.load(Ordering::SeqCst) => {
                busy.retry_after = Duration::ZERO;
                Ok(Enqueued::Waiting(Box::new(Deaf(turn)), busy))
            }
            other => Ok(other),
        }
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.abandoned.fetch_add(1, Ordering::SeqCst);
        self.memory.abandon(request).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        self.memory.renew(grants, sent).await
    }

    async fn release(&self, grant: &Grant, mut how: Release<'_>) -> Result<Released, Error> {
        if self.slow.load(Ordering::SeqCst) {
            self.open.notified().await;
            if self.closed.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::Config, "the store is closed"));
            }
        }
        if let Some(next) = how.next.filter(|_| self.halves.swap(false, Ordering::SeqCst)) {
            self.memory.enqueue(next).await?;
            self.refused.store(true, Ordering::SeqCst);
            return Err(Error::new(ErrorKind::Unavailable, "only the place was taken"));
        }
        if self.refused.swap(false, Ordering::SeqCst) {
            how.next = None;
        }
        self.memory.release(grant, how).await
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.memory.raise(grant, token).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.memory.inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.memory.list(from).await
    }

    async fn force_release(&self, name: &LockName) -> Result<Outcome, Error> {
        self.memory.force_release(name).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.memory.init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}
