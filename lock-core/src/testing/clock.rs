//! An [`Env`] with tokio's clock, which a test can pause.

use std::time::Duration;

use tokio::time::Instant as TokioInstant;

use crate::{BoxFuture, Env, Instant, NoRuntime, SystemEnv};

/// Tokio's clock. Randomness and spawning are those of [`SystemEnv`].
#[derive(Debug)]
pub struct TokioClock {
    began: TokioInstant,
    wall: u64,
}

impl TokioClock {
    /// A clock that begins now.
    #[must_use]
    pub fn begin() -> Self {
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
        self.sleep(at.since(self.now()))
    }

    fn sleep(&self, span: Duration) -> BoxFuture {
        Box::pin(tokio::time::sleep(span))
    }
}
