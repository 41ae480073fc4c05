//! The early warning: how the renewals of a held lock go, before it is lost.

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use futures_util::future::select;

use super::{
    calls::remaining,
    guard::Guard,
    monitor::Monitor,
    state::{ClientState, End, Held},
};
use crate::{Instant, tunables::FAILING_PART};

/// How the renewals of a held lock go: see [`Guard::renewal_health`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenewalHealth {
    /// How long ago the last confirmed lease began. The grant or a renewal confirmed it.
    pub confirmed: Duration,
    /// How long the lock may be relied on without another renewal; zero when it is lost.
    pub remaining: Duration,
    /// How many renewals have failed since then, or had no answer for a sixth of the lease.
    pub failures: u32,
}

fn health(state: &ClientState, held: &Held) -> RenewalHealth {
    let confirmed = state.env.now().since(held.confirmed());
    RenewalHealth { confirmed, remaining: remaining(state, held), failures: held.failures() }
}

/// When a lock counts as failing if it is not renewed; `None` if it has ended, or is no longer renewed.
fn failing_at(held: &Held) -> Option<Instant> {
    let confirmed = held.confirmed();
    let until = held.valid_until().filter(|until| *until < held.hold_until())?;
    Some(until - until.since(confirmed) / FAILING_PART)
}

async fn failing(state: &Arc<ClientState>, held: &Arc<Held>) -> Duration {
    while let Some(at) = failing_at(held) {
        if state.env.now() >= at {
            return remaining(state, held);
        }
        let alarm = state.env.sleep_until(at);
        select(pin!(held.ended()), alarm).await;
    }
    match held.ended().await {
        End::Lost(_) => Duration::ZERO,
        End::Released => pending().await,
    }
}

impl Guard {
    /// How the renewals go. Needs only the clock: no task, no store.
    #[must_use]
    pub fn renewal_health(&self) -> RenewalHealth {
        health(&self.state(), self.held())
    }

    /// Waits until two thirds of the last confirmed lease have passed without another renewal. Returns how long the lock
    /// may still be relied on: about a third of the lease. The lock may still be renewed. Use it for work that needs time
    /// to stop.
    ///
    /// *Durations*: it returns zero if the lock was lost meanwhile. If
    /// `hold_at_most` ends the lock, it gives no warning before, and returns zero then. It never ends for a lock that is released.
    ///
    /// *Cancel safety*: dropping it changes nothing.
    pub async fn renewal_failing(&self) -> Duration {
        failing(&self.state(), self.held()).await
    }
}

impl Monitor {
    /// As [`Guard::renewal_health`].
    #[must_use]
    pub fn renewal_health(&self) -> RenewalHealth {
        health(self.state(), self.held())
    }

    /// As [`Guard::renewal_failing`].
    pub async fn renewal_failing(&self) -> Duration {
        failing(self.state(), self.held()).await
    }
}
