//! Which keepalive a reply answers.

use std::collections::{HashMap, VecDeque};

use lock_core::Instant;

/// The unanswered keepalives of one stream.
///
/// A reply says which lease it is for, not which request. A stream keeps its order per lease, so a
/// reply belongs to the oldest unanswered send of its lease *on that stream*. Crediting it to a
/// later one would believe a lease for longer than the server keeps it. A new stream gets a new
/// ledger: the old one's unanswered keepalives count for nothing.
#[derive(Debug, Default)]
pub struct Ledger {
    unanswered: HashMap<i64, VecDeque<Instant>>,
}

/// The meaning of a reply for its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepaliveAck {
    /// The lease lives for `seconds`, counted from `from`, an instant before the keepalive was sent.
    Alive {
        /// When the answered keepalive was sent.
        from: Instant,
        /// The lease that the server set, in its whole seconds.
        seconds: u64,
    },
    /// The lease is gone: etcd says so with a TTL of 0 or less, and with no error.
    Lost,
    /// Nothing was asked of this lease on this stream, so the reply is good for nothing.
    Unasked,
}

impl Ledger {
    /// Notes a keepalive of `lease`; `at` is read before it is handed to the stream.
    pub fn sent(&mut self, lease: i64, at: Instant) {
        self.unanswered.entry(lease).or_default().push_back(at);
    }

    /// Credits a reply. After a loss nothing of the lease is awaited any more.
    pub fn answered(&mut self, lease: i64, ttl: i64) -> KeepaliveAck {
        let Some(sends) = self.unanswered.get_mut(&lease) else { return KeepaliveAck::Unasked };
        let from = sends.pop_front();
        if sends.is_empty() || ttl <= 0 {
            self.unanswered.remove(&lease);
        }
        match (from, u64::try_from(ttl)) {
            (None, _) => KeepaliveAck::Unasked,
            (Some(from), Ok(seconds)) if seconds > 0 => KeepaliveAck::Alive { from, seconds },
            (Some(_), _) => KeepaliveAck::Lost,
        }
    }

    /// Whether no keepalive waits for an answer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unanswered.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_reply_is_credited_to_the_oldest_send_of_its_own_lease() {
        let mut ledger = Ledger::default();
        ledger.sent(7, at(10));
        ledger.sent(8, at(11));
        ledger.sent(7, at(20));
        assert_eq!(ledger.answered(8, 3), KeepaliveAck::Alive { from: at(11), seconds: 3 });
        assert_eq!(ledger.answered(7, 2), KeepaliveAck::Alive { from: at(10), seconds: 2 });
        assert!(!ledger.is_empty());
        assert_eq!(ledger.answered(7, 2), KeepaliveAck::Alive { from: at(20), seconds: 2 });
        assert_eq!(ledger.answered(7, 2), KeepaliveAck::Unasked);
        assert!(ledger.is_empty());
    }

    #[test]
    fn a_ttl_of_zero_or_less_is_a_loss_and_ends_the_wait_for_the_lease() {
        for ttl in [0, -1, i64::MIN] {
            let mut ledger = Ledger::default();
            ledger.sent(7, at(10));
            ledger.sent(7, at(20));
            ledger.sent(8, at(30));
            assert_eq!(ledger.answered(7, ttl), KeepaliveAck::Lost);
            assert_eq!(ledger.answered(7, 5), KeepaliveAck::Unasked);
            assert_eq!(ledger.answered(8, 5), KeepaliveAck::Alive { from: at(30), seconds: 5 });
            assert!(ledger.is_empty());
        }
    }
}
