//! A timer that stays set: what is waited for mostly comes first, and a new timer for each wait costs more
//! than one that rings now and then for nothing.

use std::future::pending;

use crate::{Instant, env::BoxFuture};

/// Rings at the last instant that it was set to, or before.
#[derive(Default)]
pub(crate) struct Alarm(Option<(Instant, BoxFuture)>);

impl Alarm {
    /// When it rings, if it is set.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.0.as_ref().map(|(at, _)| *at)
    }

    /// Sets it to `at`, by a timer of its own unless one that is set rings before.
    pub(crate) fn set(&mut self, now: Instant, at: Instant, timer: impl FnOnce() -> BoxFuture) {
        // One that should have rung is late by a suspend, or about to ring.
        if self.at().is_none_or(|set| at < set || set <= now) {
            self.0 = Some((at, timer()));
        }
    }

    /// Waits for it; for ever where it is not set.
    pub(crate) async fn ring(&mut self) {
        match &mut self.0 {
            Some((_, timer)) => timer.await,
            None => pending().await,
        }
        self.0 = None;
    }
}
