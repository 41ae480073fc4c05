//! Which requests of a session the leader knows of.

use std::{collections::VecDeque, time::Duration};

use lock_core::Instant;

/// The requests of a session that count for its validity.
#[derive(Debug)]
pub(super) struct Touches {
    /// The leader ends the session not earlier than a whole session after this.
    pub(super) confirmed: Instant,
    /// When earlier answered writes were sent, and when they were answered, the oldest first.
    earlier: VecDeque<(Instant, Instant)>,
    /// How long before an answered write is sent the answer to a request must come.
    after: Duration,
    /// Requests that are closer together count as one.
    apart: Duration,
}

impl Touches {
    /// A session whose first request was sent at `opened`. It reaches the leader.
    pub(super) fn new(opened: Instant, after: Duration, apart: Duration) -> Self {
        Self { confirmed: opened, earlier: VecDeque::new(), after, apart }
    }

    /// A write that was sent at `sent` was answered. An earlier one reached its follower before its
    /// own answer, so it may have been under way for long.
    pub(super) fn wrote(&mut self, sent: Instant, answered: Instant) {
        // guard: last-but-one-write | S3 |
        //   ensemble::a_write_and_then_a_cut_leave_no_second_holder |
        //   sent.since(*answered) >= self.after => true
        let confirmed = |(_, answered): &(Instant, _)| sent.since(*answered) >= self.after;
        while let Some((earlier, _)) = self.earlier.front().copied().filter(confirmed) {
            self.confirmed = self.confirmed.max(earlier);
            self.earlier.pop_front();
        }
        if self.earlier.back().is_none_or(|(last, _)| sent.since(*last) >= self.apart) {
            self.earlier.push_back((sent, answered));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_when_a_later_write_was_answered() {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let [after, apart] = [3, 1].map(Duration::from_secs);
        let mut touches = Touches::new(at(10), after, apart);
        let mut answered = |sent, answered| {
            touches.wrote(at(sent), at(answered));
            touches.confirmed
        };
        let mut wrote = |seconds| answered(seconds, seconds);
        assert_eq!(wrote(12), at(10));
        // The write at 12 is not old enough: its follower may have been cut off since.
        assert_eq!(wrote(14), at(10));
        assert_eq!(wrote(15), at(12));
        assert_eq!(wrote(30), at(15));
        // Answers of an earlier request change nothing.
        assert_eq!(wrote(29), at(15));
        assert_eq!(answered(40, 42), at(30));
        // The write at 40 may have reached the follower at 42.
        assert_eq!(answered(44, 44), at(30));
        assert_eq!(answered(45, 45), at(40));
    }
}
