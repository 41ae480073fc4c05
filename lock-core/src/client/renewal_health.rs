//! The early warning: whether the renewals of a held lock succeed, before the lock is lost.

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use futures_util::future::select;

use super::{
    calls::remaining,
    guard::Guard,
    monitor::Monitor,
    state::{ClientState, End, Held},
};
use crate::{Instant, tunables::FAILING_PART};

/// Whether the renewals of a held lock succeed; see [`Guard::renewal_health`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenewalHealth {
    /// How long ago the last confirmed lease began. The grant or a renewal confirmed it.
    pub confirmed: Duration,
    /// How long the holder may rely on the lock without another renewal; zero if the lock is lost.
    pub remaining: Duration,
    /// How many renewals since then have failed, or had no answer for a sixth of the lease.
    pub failures: u32,
}

fn health(state: &ClientState, held: &Held) -> RenewalHealth {
    let confirmed = state.env.now().since(held.confirmed());
    RenewalHealth { confirmed, remaining: remaining(state, held), failures: held.failures() }
}

/// When renewal counts as failing if no renewal is confirmed before. `None` if the lock has ended,
/// or is no longer renewed.
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
        End::Released | End::Detached => pending().await,
    }
}

impl Guard {
    /// Whether the renewals succeed. This only reads the clock: it needs no task and no store.
    #[must_use]
    pub fn renewal_health(&self) -> RenewalHealth {
        health(&self.state(), self.held())
    }

    /// Waits until two thirds of the last confirmed lease have passed without another renewal, and
    /// returns how long the holder may still rely on the lock: about a third of the lease. For work
    /// that needs time to stop.
    ///
    /// # Guarantees
    ///
    /// The lock is not lost yet, and a later renewal may still succeed. If `hold_at_most` ends the
    /// lock, there is no warning before.
    ///
    /// # Durations
    ///
    /// It returns zero if the lock is lost. It never ends if the lock is released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
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
