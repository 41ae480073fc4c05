//! The clock of ZooKeeper's leader, as far as answers show it.

use lock_core::{Env as _, Instant, Mutex, SystemEnv};

use crate::keys::data::micros;

/// Each write has the leader's time in milliseconds. Between writes the client's clock goes on.
#[derive(Debug, Default)]
pub(crate) struct StoreClock(Mutex<Option<Observation>>);

#[derive(Clone, Copy, Debug)]
struct Observation {
    micros: u64,
    sent: Instant,
    answered: Instant,
}

impl StoreClock {
    /// Records the time in the answer to a write that was sent at `sent`.
    pub(crate) fn note(&self, millis: i64, sent: Instant) {
        let answered = SystemEnv.now();
        *self.0.lock() = Some(Observation { micros: micros(millis), sent, answered });
    }

    /// The leader's time, or a little earlier, in microseconds since 1970.
    pub(crate) fn earliest(&self) -> u64 {
        self.at(|seen| seen.micros, |seen| seen.answered)
    }

    /// The leader's time, or a little later.
    pub(crate) fn latest(&self) -> u64 {
        self.at(|seen| seen.micros + 1_000, |seen| seen.sent)
    }

    fn at(
        &self,
        micros: impl Fn(&Observation) -> u64,
        since: impl Fn(&Observation) -> Instant,
    ) -> u64 {
        // A client writes before it asks for the time. The clock of the machine is for tests.
        let Some(seen) = *self.0.lock() else { return SystemEnv.wall_micros() };
        let passed = SystemEnv.now().since(since(&seen)).as_micros();
        micros(&seen).saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}
