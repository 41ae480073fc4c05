//! The server's last description of itself on a connection, with the time of the question and the
//! server's clock.

use std::{sync::Arc, time::Duration};

use lock_core::{Instant, Mutex};

use crate::connection::identity::Identity;

/// One answer of the server about its identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) identity: Arc<Identity>,
    /// An instant before the question was sent.
    pub(crate) asked: Instant,
    /// The server's clock in µs, at that instant or later.
    pub(crate) clock: u64,
    pub(crate) seen: Seen,
}

/// What a handshake saw of the store's use in the present run of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// An epoch record of this run. Without it, a grant needs the steps of a first use.
    pub(crate) record: bool,
    /// The witness. No renewal goes without it.
    pub(crate) witness: bool,
}

impl Seen {
    /// As if both were there: what a client that keeps no witness assumes.
    pub(crate) const ALL: Self = Self { record: true, witness: true };
}

impl Default for Seen {
    fn default() -> Self {
        Self::ALL
    }
}

impl Handshake {
    /// The time on the server's clock, in µs, after which an attempt sent now is too late to take
    /// effect. It is not before the server's present time, unless the clock was stepped after the
    /// handshake.
    pub(crate) fn deadline(&self, now: Instant, late_after: Duration) -> u64 {
        let passed = now.since(self.asked) + late_after;
        self.clock.saturating_add(u64::try_from(passed.as_micros()).unwrap_or(u64::MAX))
    }
}

/// The last handshake of a connection, as one value. A clock from one handshake beside the instant
/// of another would shift deadlines by the time between the two.
#[derive(Debug, Default)]
pub(crate) struct LastHandshake(Mutex<Handshake>);

impl LastHandshake {
    pub(crate) fn get(&self) -> Handshake {
        self.0.lock().clone()
    }

    /// Adds what this client has done since this handshake. A later handshake knows better.
    pub(crate) fn add(&self, to: &Handshake, seen: Seen) {
        let mut last = self.0.lock();
        if last.asked == to.asked {
            last.seen = seen;
        }
    }

    /// Stores a handshake, unless a later one has been stored already.
    pub(crate) fn set(&self, new: &Handshake) {
        let mut last = self.0.lock();
        if new.asked >= last.asked {
            *last = new.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(seconds: u32) -> Handshake {
        let micros = 1_000_000 * u64::from(seconds);
        let asked = Instant::default() + SECOND * seconds;
        Handshake { asked, clock: micros, ..Handshake::default() }
    }

    #[test]
    fn a_deadline_is_as_far_from_now_whichever_handshake_it_counts_from() {
        let now = Instant::default() + SECOND * 100;
        for seconds in [1, 50, 100] {
            assert_eq!(after(seconds).deadline(now, 30 * SECOND), 130_000_000);
        }
    }

    #[test]
    fn no_attempt_sees_the_clock_of_one_handshake_with_the_instant_of_another() {
        let last = LastHandshake::default();
        last.set(&after(0));
        let now = Instant::default() + SECOND * 1_000_000;
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for seconds in 0..200_000 {
                    last.set(&after(seconds));
                }
            });
            while !writing.is_finished() {
                assert_eq!(last.get().deadline(now, SECOND), 1_000_001_000_000);
            }
        });
    }

    #[test]
    fn a_late_answer_does_not_replace_a_later_question() {
        let last = LastHandshake::default();
        last.set(&after(5));
        last.set(&after(4));
        assert_eq!(last.get(), after(5));
    }
}
