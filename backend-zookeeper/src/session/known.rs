//! Which requests of a session the leader knows of.

use std::{collections::VecDeque, time::Duration};

use lock_core::Instant;

/// The requests of a session that count for its validity.
#[derive(Debug)]
pub(super) struct Known {
    /// The leader ends the session not earlier than a whole session after this.
    confirmed: Instant,
    /// When the last answered write was sent.
    written: Instant,
    /// When earlier answered writes were sent, the oldest first.
    earlier: VecDeque<Instant>,
    /// How much older than an answered write a request must be.
    after: Duration,
    /// Requests that are closer together count as one.
    apart: Duration,
}

impl Known {
    /// A session whose first request was sent at `opened`. It reaches the leader.
    pub(super) fn new(opened: Instant, after: Duration, apart: Duration) -> Self {
        Self { confirmed: opened, written: opened, earlier: VecDeque::new(), after, apart }
    }

    /// A write that was sent at `sent` was answered.
    pub(super) fn wrote(&mut self, sent: Instant) {
        let confirmed = |earlier: &Instant| sent.since(*earlier) >= self.after;
        while let Some(earlier) = self.earlier.front().copied().filter(confirmed) {
            self.confirmed = self.confirmed.max(earlier);
            self.earlier.pop_front();
        }
        self.written = self.written.max(sent);
        if self.earlier.back().is_none_or(|last| sent.since(*last) >= self.apart) {
            self.earlier.push_back(sent);
        }
    }

    pub(super) fn confirmed(&self) -> Instant {
        self.confirmed
    }

    pub(super) fn written(&self) -> Instant {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_when_a_later_write_was_answered() {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let [after, apart] = [3, 1].map(Duration::from_secs);
        let mut known = Known::new(at(10), after, apart);
        let mut wrote = |seconds| {
            known.wrote(at(seconds));
            known.confirmed()
        };
        assert_eq!(wrote(12), at(10));
        // The write at 12 is not old enough: its follower may have been cut off since.
        assert_eq!(wrote(14), at(10));
        assert_eq!(wrote(15), at(12));
        assert_eq!(wrote(30), at(15));
        // Answers of an earlier request change nothing.
        assert_eq!(wrote(29), at(15));
    }
}
