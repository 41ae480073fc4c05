//! The clock of ZooKeeper's leader, and the order of its writes, as far as answers show them.

use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{Env as _, Instant, Mutex, SystemEnv};
use zookeeper_client::Stat;

use crate::keys::data::micros;

/// Each write has the leader's time in milliseconds. Between writes the client's clock goes on.
#[derive(Debug, Default)]
pub(crate) struct StoreClock {
    seen: Mutex<Option<Observation>>,
    has_gone_back: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Observation {
    micros: u64,
    zxid: i64,
    sent: Instant,
    answered: Instant,
}

impl StoreClock {
    /// Records the answer to a write that was sent at `sent`. A write that was sent after the
    /// answer to another one comes after it, unless the servers have an older state since.
    pub(crate) fn note(&self, stat: &Stat, sent: Instant) {
        let (micros, answered) = (micros(stat.mtime), SystemEnv.now());
        let new = Observation { micros, zxid: stat.mzxid, sent, answered };
        let last = self.seen.lock().replace(new);
        if last.is_some_and(|last| sent > last.answered && new.zxid < last.zxid) {
            self.note_gone_back(true);
        }
    }

    /// Whether the servers have lost what they had confirmed, and no quarantine was begun since.
    pub(crate) fn has_gone_back(&self) -> bool {
        self.has_gone_back.load(Ordering::Acquire)
    }

    pub(crate) fn note_gone_back(&self, gone_back: bool) {
        self.has_gone_back.store(gone_back, Ordering::Release);
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
        let Some(seen) = *self.seen.lock() else { return SystemEnv.wall_micros() };
        let passed = SystemEnv.now().since(since(&seen)).as_micros();
        micros(&seen).saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}
