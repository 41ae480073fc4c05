//! Clocks that a test controls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lock_core::{BoxFuture, Env, Instant, NoRuntime, SystemEnv};

/// Tokio's clock, which a test can pause.
#[derive(Debug)]
pub(crate) struct TokioEnv(tokio::time::Instant);

impl TokioEnv {
    pub(crate) fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Env for TokioEnv {
    fn now(&self) -> Instant {
        Instant::from_nanos(1) + self.0.elapsed()
    }

    fn wall_micros(&self) -> u64 {
        1_800_000_000_000_000 + self.0.elapsed().as_micros() as u64
    }

    fn random(&self) -> u128 {
        SystemEnv.random()
    }

    fn spawn(&self, task: BoxFuture) -> Result<(), NoRuntime> {
        SystemEnv.spawn(task)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture {
        Box::pin(tokio::time::sleep(at.since(self.now())))
    }
}

/// The same on a machine that a test can suspend. Timers do not count the time of a suspend.
#[derive(Debug)]
pub(crate) struct SuspendableEnv {
    running: TokioEnv,
    nanos: AtomicU64,
}

impl SuspendableEnv {
    pub(crate) fn new() -> Arc<Self> {
        let running = TokioEnv::new();
        Arc::new(Self { running, nanos: AtomicU64::new(0) })
    }

    pub(crate) fn suspend(&self, span: Duration) {
        self.nanos.fetch_add(span.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Env for SuspendableEnv {
    fn now(&self) -> Instant {
        self.running.now() + Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn wall_micros(&self) -> u64 {
        self.running.wall_micros() + self.nanos.load(Ordering::SeqCst) / 1_000
    }

    fn random(&self) -> u128 {
        self.running.random()
    }

    fn spawn(&self, task: BoxFuture) -> Result<(), NoRuntime> {
        self.running.spawn(task)
    }

    /// A suspend delays it.
    fn sleep_until(&self, at: Instant) -> BoxFuture {
        self.sleep(at.since(self.now()))
    }
}
