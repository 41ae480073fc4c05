//! A timer that stays set. Most waits end before it rings, and a new timer for each wait costs more
//! than one that rings now and then for nothing.

use std::future::pending;

use crate::{Instant, env::BoxFuture};

/// Rings at the last instant that it was set to, or before. Its timers may count running time only: then a suspend
/// makes it late, by no more than the longest span that it is ever set to.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;

    fn at(second: u64) -> Instant {
        Instant::from_nanos(0) + Duration::from_secs(second)
    }

    /// An alarm that is set to second 10, by a timer that never rings.
    fn set() -> Alarm {
        let mut alarm = Alarm::default();
        alarm.set(at(0), at(10), || Box::pin(pending()));
        alarm
    }

    fn now() -> BoxFuture {
        Box::pin(async {})
    }

    #[test]
    fn one_that_rings_before_needs_no_other_timer() {
        let mut alarm = set();
        alarm.set(at(1), at(11), || panic!("another timer"));
        alarm.set(at(1), at(10), || panic!("another timer"));
        assert_eq!(alarm.at(), Some(at(10)));
        assert_eq!(alarm.ring().now_or_never(), None);
    }

    #[test]
    fn one_that_rings_too_late_is_set_anew() {
        let mut alarm = set();
        alarm.set(at(1), at(9), now);
        assert_eq!(alarm.at(), Some(at(9)));
        assert_eq!(alarm.ring().now_or_never(), Some(()));
        // It should have rung at 10, which is over.
        let mut alarm = set();
        alarm.set(at(12), at(13), now);
        assert_eq!(alarm.at(), Some(at(13)));
        assert_eq!(alarm.ring().now_or_never(), Some(()));
    }

    #[test]
    fn it_rings_once() {
        let mut alarm = set();
        alarm.set(at(0), at(1), now);
        assert_eq!(alarm.ring().now_or_never(), Some(()));
        assert_eq!(alarm.at(), None);
        assert_eq!(alarm.ring().now_or_never(), None);
    }
}
