//! A timer that is reused. Most waits end before their timer rings, and a new timer for each wait
//! would cost more than an old one that rings too early now and then.

use std::future::pending;

use crate::{Instant, env::BoxFuture};

/// A timer that rings at the instant of its last `set`, or earlier. If its timers do not count
/// during suspend, a suspend delays it by at most the longest span that it was ever set to.
#[derive(Default)]
pub(crate) struct Alarm(Option<(Instant, BoxFuture)>);

impl Alarm {
    /// When it rings; `None` if it is not set.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.0.as_ref().map(|(at, _)| *at)
    }

    /// Sets it to `at`. Makes a new timer only if the old one would ring later.
    pub(crate) fn set(&mut self, now: Instant, at: Instant, timer: impl FnOnce() -> BoxFuture) {
        // A timer that should have rung already is delayed by a suspend, or about to ring.
        if self.at().is_none_or(|set| at < set || set <= now) {
            self.0 = Some((at, timer()));
        }
    }

    /// Waits until it rings; for ever if it is not set.
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
    fn an_earlier_timer_is_kept() {
        let mut alarm = set();
        alarm.set(at(1), at(11), || panic!("another timer"));
        alarm.set(at(1), at(10), || panic!("another timer"));
        assert_eq!(alarm.at(), Some(at(10)));
        assert_eq!(alarm.ring().now_or_never(), None);
    }

    #[test]
    fn a_timer_that_would_ring_too_late_is_replaced() {
        let mut alarm = set();
        alarm.set(at(1), at(9), now);
        assert_eq!(alarm.at(), Some(at(9)));
        assert_eq!(alarm.ring().now_or_never(), Some(()));
        // The old timer should have rung at 10.
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
