//! One node of the model: what its scripts do.

use backend_redlock::protocol::{
    token::{stored, takes_write_back},
    vote::Vote,
};

use crate::quorum::Guards;

/// A lock as a node keeps it, at least until this period of its owner's is over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Record {
    pub(crate) owner: usize,
    pub(crate) number: u64,
    pub(crate) period: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) record: Option<Record>,
    pub(crate) watermark: u64,
    /// How many periods of each attempt must be over before it votes.
    pub(crate) quarantine: Option<Vec<u8>>,
    /// Its clock is ahead of the others: records end early.
    pub(crate) ahead: bool,
    pub(crate) clock: u64,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self { record: None, watermark: 0, quarantine: None, ahead: false, clock: 0 }
    }

    /// Reads a request to acquire.
    pub(crate) fn ask(&mut self, guards: &Guards, me: usize, proposed: u64) -> Vote {
        if self.quarantine.is_some() {
            return Vote::No;
        }
        let number = match &self.record {
            Some(record) if record.owner == me => record.number,
            Some(_) => return Vote::No,
            None => {
                let clock = if guards.clock_floor { self.clock } else { 0 };
                let number = stored(proposed, proposed.max(clock), self.watermark, 0);
                self.record = Some(Record { owner: me, number, period: 0 });
                self.watermark = number;
                number
            }
        };
        // What the asker makes of the node's clock.
        if self.ahead && guards.clock_votes { Vote::No } else { Vote::Ours(number) }
    }

    /// Reads a write-back.
    pub(crate) fn write(&mut self, guards: &Guards, me: usize, number: u64) -> bool {
        let own = self.record.as_ref().filter(|record| record.owner == me);
        if guards.still_ours && !takes_write_back(own.map(|record| record.number), number) {
            return false;
        }
        if let Some(record) = &mut self.record {
            record.number = record.number.max(number);
        }
        self.watermark = self.watermark.max(number);
        true
    }

    /// Reads a renewal: whether the lock is there.
    pub(crate) fn renew(&mut self, guards: &Guards, me: usize) -> bool {
        if self.record.is_none() && !guards.reacquires_nothing {
            self.record = Some(Record { owner: me, number: self.watermark, period: 1 });
        }
        match &mut self.record {
            Some(record) if record.owner == me => {
                record.period = 1;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn crash(&mut self, quarantine: Option<Vec<u8>>) {
        *self = Self { quarantine, ahead: self.ahead, ..Self::new() };
    }
}
