//! An [`Env`] with tokio's clock. With paused time a test depends on no load: time passes only
//! while every task waits.

use std::time::Duration;

use lock_core::{BoxFuture, Env, Instant, NoRuntime, SystemEnv};
use tokio::time::Instant as TokioInstant;

#[derive(Debug)]
pub(crate) struct TokioClock {
    began: TokioInstant,
    wall: u64,
}

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self { began: TokioInstant::now(), wall: SystemEnv.wall_micros() }
    }
}

impl Env for TokioClock {
    fn now(&self) -> Instant {
        // The core uses the instant 0 for "ended".
        Instant::from_nanos(1) + self.began.elapsed()
    }

    fn wall_micros(&self) -> u64 {
        self.wall + self.began.elapsed().as_micros() as u64
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

    fn sleep(&self, span: Duration) -> BoxFuture {
        Box::pin(tokio::time::sleep(span))
    }
}
