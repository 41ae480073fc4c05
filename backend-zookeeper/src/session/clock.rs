//! The clock of ZooKeeper's leader, as far as answers show it.

use lock_core::{Env as _, Instant, Mutex, SystemEnv};
use zookeeper_client::Stat;

use super::own::epoch_of;
use crate::keys::data::micros;

/// Each write has the leader's time in milliseconds. Between writes the client's clock goes on.
#[derive(Debug, Default)]
pub(crate) struct StoreClock {
    seen: Mutex<Option<Observation>>,
}

#[derive(Clone, Copy, Debug)]
struct Observation {
    epoch: i64,
    micros: u64,
    sent: Instant,
    answered: Instant,
}

impl StoreClock {
    /// Records the answer to a write that was sent at `sent`.
    pub(crate) fn observe(&self, stat: &Stat, sent: Instant) {
        let (epoch, micros) = (epoch_of(stat.mzxid), micros(stat.mtime));
        let answered = SystemEnv.now();
        let mut seen = self.seen.lock();
        // Another session of the client may have seen the next leader meanwhile.
        if seen.is_none_or(|last| last.epoch <= epoch || last.answered < sent) {
            *seen = Some(Observation { epoch, micros, sent, answered });
        }
    }

    /// The epoch of the leader whose time this is.
    pub(crate) fn epoch(&self) -> i64 {
        self.seen.lock().map_or(i64::MIN, |seen| seen.epoch)
    }

    /// The leader's time, or a little earlier, in microseconds since 1970.
    pub(crate) fn earliest(&self) -> u64 {
        self.at(|seen| (seen.micros, seen.answered))
    }

    /// The leader's time, or a little later.
    pub(crate) fn latest(&self) -> u64 {
        self.at(|seen| (seen.micros + 1_000, seen.sent))
    }

    fn at(&self, known: impl Fn(Observation) -> (u64, Instant)) -> u64 {
        // A client writes before it asks for the time. The clock of the machine is for tests.
        let Some(seen) = *self.seen.lock() else { return SystemEnv.wall_micros() };
        let (micros, since) = known(seen);
        let passed = SystemEnv.now().since(since).as_micros();
        micros.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}
