//! A timer that can be set anew.

use std::future::pending;

use leasehold::backend::{BoxFuture, Env as _, Instant, SystemEnv};

/// Rings once at an instant, on the clock that also counts while the machine is suspended.
pub(super) struct Alarm {
    at: Option<Instant>,
    ring: BoxFuture,
}

impl Alarm {
    /// An alarm that is not set.
    pub(super) fn unset() -> Self {
        Self { at: None, ring: Box::pin(pending()) }
    }

    /// Sets it to another instant; `None`: it does not ring.
    pub(super) fn set(&mut self, at: Option<Instant>) {
        if self.at != at {
            self.at = at;
            self.ring = match at {
                Some(at) => SystemEnv.sleep_until(at),
                None => Box::pin(pending()),
            };
        }
    }

    /// Sets it, unless it is set already.
    pub(super) fn set_first(&mut self, at: Instant) {
        self.set(Some(self.at.unwrap_or(at)));
    }

    /// Waits until it rings, and unsets it. Cancel safe.
    pub(super) async fn rung(&mut self) {
        (&mut self.ring).await;
        self.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_rings_once_at_the_last_instant_that_was_set() {
        let mut alarm = Alarm::unset();
        let start = SystemEnv.now();
        alarm.set(Some(start + Duration::from_secs(3600)));
        let at = start + Duration::from_millis(20);
        alarm.set(Some(at));
        alarm.rung().await;
        assert!(SystemEnv.now() >= at);
        tokio::select! {
            biased;
            () = alarm.rung() => panic!("it rang twice"),
            () = tokio::task::yield_now() => {}
        }
        alarm.set(Some(at));
        alarm.rung().await;
    }
}
