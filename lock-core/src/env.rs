//! The core's only access to clock, randomness, spawning and sleeping.
//!
//! [`SystemEnv`] is the real one. A simulation replaces it, and so runs the real core in simulated
//! time.

use std::{fmt::Debug, future::Future, pin::Pin, time::Duration};

use rand::RngExt as _;
use tokio::runtime::Handle;

use crate::{Instant, sys, tunables::CLOCK_CHECK};

/// An owned future: a task, a call or a timer.
pub type BoxFuture<T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// There is no async runtime to spawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tokio runtime here")]
pub struct NoRuntime;

/// Clock, randomness, spawning and sleeping.
pub trait Env: Debug + Send + Sync + 'static {
    /// The time on a clock that also counts during suspend, and never goes back.
    fn now(&self) -> Instant;

    /// The wall clock, in microseconds since 1970. It may jump; only fencing tokens use it.
    fn wall_micros(&self) -> u64;

    /// 128 random bits.
    fn random(&self) -> u128;

    /// Runs `task` to its end on the runtime of the caller.
    ///
    /// # Errors
    /// [`NoRuntime`] if there is none. The task is then dropped.
    fn spawn(&self, task: BoxFuture) -> Result<(), NoRuntime>;

    /// The runtime of the caller. A task that ends with another runtime can go on here. Default:
    /// none.
    fn runtime(&self) -> Option<Handle> {
        None
    }

    /// Ends when [`now`](Env::now) has reached `at`, even if the machine was suspended for a part
    /// of the time. Dropping the future cancels the timer.
    fn sleep_until(&self, at: Instant) -> BoxFuture;

    /// Ends after `span` of running time. It is cheaper than [`sleep_until`](Env::sleep_until), but
    /// the time of a suspend does not count. For timeouts and pauses between attempts, never for
    /// validity.
    fn sleep(&self, span: Duration) -> BoxFuture {
        Box::pin(tokio::time::sleep(span))
    }
}

/// A random duration from 3/4 of `span` to `span`, so that clients that started together do not
/// stay together.
#[must_use]
pub fn jittered(env: &dyn Env, span: Duration) -> Duration {
    spread(env.random(), span)
}

/// The same, from bits that are already random.
pub(crate) fn spread(bits: u128, span: Duration) -> Duration {
    // The lowest byte is as random as the rest.
    span - span / 1024 * (u32::from(bits as u8) + 1)
}

/// The real clock, the operating system's randomness, and the current tokio runtime.
///
/// The runtime must have its I/O and time drivers enabled (`enable_all`), because sleeps use a
/// timer of the clock that counts during suspend.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnv;

impl Env for SystemEnv {
    fn now(&self) -> Instant {
        sys::now()
    }

    fn wall_micros(&self) -> u64 {
        sys::wall_micros()
    }

    fn random(&self) -> u128 {
        rand::rng().random()
    }

    fn spawn(&self, task: BoxFuture) -> Result<(), NoRuntime> {
        self.runtime().ok_or(NoRuntime)?.spawn(task);
        Ok(())
    }

    fn runtime(&self) -> Option<Handle> {
        Handle::try_current().ok()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture {
        Box::pin(sys::sleep_until(at))
    }
}

/// As [`Env::sleep_until`], but up to a second late after a suspend. As cheap as [`Env::sleep`]: it
/// needs no system call, even if it is cancelled.
pub(crate) async fn sleep_checking_clock(env: &dyn Env, at: Instant) {
    loop {
        let left = at.since(env.now());
        if left.is_zero() {
            return;
        }
        env.sleep(left.min(CLOCK_CHECK)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_alarm_fires_when_the_clock_has_come() {
        let at = SystemEnv.now() + Duration::from_millis(20);
        SystemEnv.sleep_until(at).await;
        assert!(SystemEnv.now() >= at);
        SystemEnv.sleep_until(at).await;
    }

    #[test]
    fn spawning_without_a_runtime_is_an_error_and_no_panic() {
        assert_eq!(SystemEnv.spawn(Box::pin(async {})), Err(NoRuntime));
    }

    #[test]
    fn the_clocks_run() {
        let (now, wall) = (SystemEnv.now(), SystemEnv.wall_micros());
        assert!(now > Instant::default());
        assert!(wall > 1_700_000_000_000_000);
        assert_ne!(SystemEnv.random(), SystemEnv.random());
    }
}
