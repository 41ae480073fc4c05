//! How often a line of the log may repeat.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::Instant;

/// Limits a line of the log that would repeat while a trouble lasts, such as a store that does not
/// answer: the first is written, and then at most one per span.
///
/// This is for authors of backends. All lines have the target `leasehold`.
#[derive(Debug)]
pub struct OncePer {
    span: Duration,
    /// When the next line is due, in nanoseconds of the clock.
    due: AtomicU64,
}

impl OncePer {
    /// At most one line per minute.
    #[must_use]
    pub const fn minute() -> Self {
        Self::new(Duration::from_secs(60))
    }

    /// At most one line per `span`.
    #[must_use]
    pub const fn new(span: Duration) -> Self {
        Self { span, due: AtomicU64::new(0) }
    }

    /// Whether a line is due at `now`. If so, the next one is due a span later.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        let due = Instant::from_nanos(self.due.load(Ordering::Relaxed));
        if now >= due {
            self.due.store((now + self.span).as_nanos(), Ordering::Relaxed);
        }
        now >= due
    }

    /// The trouble is over: the next line is due at once.
    pub fn reset(&self) {
        self.due.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_at_first_and_then_once_per_span() {
        let line = OncePer::minute();
        let due = |secs| line.is_due(Instant::default() + Duration::from_secs(secs));
        assert_eq!([0, 1, 59, 60, 61, 200].map(due), [true, false, false, true, false, true]);
        line.reset();
        assert!(due(201));
    }
}
