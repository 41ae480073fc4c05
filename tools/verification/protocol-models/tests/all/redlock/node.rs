//! One node of the model: what its scripts do.

use backend_redlock::protocol::{
    token::{stored, takes_write_back},
    vote::Vote,
};

use super::quorum::Guards;

/// A lock as a node keeps it for one owner, at least until this period of that owner is over. If
/// readers share a lock, each has a record of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Record {
    pub(crate) owner: usize,
    pub(crate) shared: bool,
    pub(crate) number: u64,
    pub(crate) period: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    /// One record of a writer, or those of readers, by their owners.
    pub(crate) records: Vec<Record>,
    pub(crate) watermark: u64,
    /// How many periods of each attempt must be over before the node votes.
    pub(crate) quarantine: Option<Vec<u8>>,
    /// Its clock is ahead of the others: records end early.
    pub(crate) ahead: bool,
    pub(crate) clock: u64,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self { records: Vec::new(), watermark: 0, quarantine: None, ahead: false, clock: 0 }
    }

    fn of(&mut self, me: usize) -> Option<&mut Record> {
        self.records.iter_mut().find(|record| record.owner == me)
    }

    fn keep(&mut self, record: Record) {
        self.records.push(record);
        self.records.sort_unstable();
    }

    pub(crate) fn free(&mut self, owner: usize) {
        self.records.retain(|record| record.owner != owner);
    }

    /// The record of an owner ends.
    pub(crate) fn end(&mut self, guards: &Guards, owner: usize) {
        if guards.apart {
            self.free(owner);
        } else {
            self.records.clear();
        }
    }

    /// Whether records of other owners keep this one out.
    fn busy(&self, guards: &Guards, shared: bool) -> bool {
        let kept = |record: &Record| {
            (!shared && guards.writers_wait) || (!record.shared && guards.readers_wait)
        };
        self.records.iter().any(kept)
    }

    /// Reads a request to acquire.
    pub(crate) fn ask(&mut self, guards: &Guards, me: usize, shared: bool, proposed: u64) -> Vote {
        if self.quarantine.is_some() {
            return Vote::No;
        }
        let number = if let Some(record) = self.of(me) {
            record.number
        } else if self.busy(guards, shared) {
            return Vote::No;
        } else {
            let clock = if guards.clock_floor { self.clock } else { 0 };
            // A reader beside others gets its own number, above theirs.
            let number = stored(proposed, proposed.max(clock), self.watermark, 0);
            self.keep(Record { owner: me, shared, number, period: 0 });
            if !shared || guards.readers_mark {
                self.watermark = number;
            }
            number
        };
        // The asker's view of the node's clock.
        if self.ahead && guards.clock_votes { Vote::No } else { Vote::Ours(number) }
    }

    /// Reads a write-back.
    pub(crate) fn write(&mut self, guards: &Guards, me: usize, number: u64) -> bool {
        let own = self.of(me).map(|record| record.number);
        if guards.still_ours && !takes_write_back(own, number) {
            return false;
        }
        let others = !guards.still_ours;
        for record in self.records.iter_mut().filter(|record| others || record.owner == me) {
            record.number = record.number.max(number);
        }
        self.watermark = self.watermark.max(number);
        true
    }

    /// Reads a renewal. Returns whether the lock is there.
    pub(crate) fn renew(&mut self, guards: &Guards, me: usize, shared: bool) -> bool {
        if self.records.is_empty() && !guards.reacquires_nothing {
            self.keep(Record { owner: me, shared, number: self.watermark, period: 1 });
        }
        self.of(me).map(|record| record.period = 1).is_some()
    }

    pub(crate) fn crash(&mut self, quarantine: Option<Vec<u8>>) {
        *self = Self { quarantine, ahead: self.ahead, ..Self::new() };
    }
}
