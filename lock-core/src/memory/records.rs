//! The records of all names. They outlive the locks, so they are apart from them.

use std::collections::HashMap;

use super::entry::Now;
use crate::{
    Grant, Instant, LockName, Record, RecordRead, RecordWrite, StoreTime,
    tunables::memory::FEW_NAMES,
};

pub(super) struct Records {
    kept: HashMap<LockName, Kept>,
    complete_since: StoreTime,
    /// The number of records at which the store forgets those that are over.
    sweep_at: usize,
}

struct Kept {
    record: Record,
    /// The number of the write.
    number: u64,
    until: Instant,
}

impl Records {
    pub(super) fn new() -> Self {
        Self { kept: HashMap::new(), complete_since: StoreTime::EVER, sweep_at: FEW_NAMES }
    }

    pub(super) fn read(&self, name: &LockName, now: Now<'_>) -> RecordRead {
        let kept = self.kept.get(name).filter(|kept| now.clock < kept.until);
        RecordRead::new(kept.map(|kept| kept.record.clone()), now.wall())
            .with_complete_since(self.complete_since)
    }

    /// Writes the record of a grant that holds its lock. A repeat or a late request changes
    /// nothing.
    pub(super) fn write(&mut self, grant: &Grant, write: &RecordWrite, now: Now<'_>) {
        let is_last = |kept: &Kept| {
            now.clock < kept.until
                && kept.record.token == grant.token
                && kept.number >= write.number
        };
        if self.kept.get(&grant.name).is_some_and(is_last) {
            return;
        }
        if self.kept.len() >= self.sweep_at {
            self.kept.retain(|_, kept| now.clock < kept.until);
            self.sweep_at = FEW_NAMES.max(2 * self.kept.len());
        }
        let record = Record::new(write.value.clone(), grant.token, now.wall());
        let kept = Kept { record, number: write.number, until: now.clock + write.keep_for };
        self.kept.insert(grant.name.clone(), kept);
    }

    /// What an operator says: nothing that still counts was lost.
    pub(super) fn set_complete(&mut self) {
        self.complete_since = StoreTime::EVER;
    }

    /// Loses all records, and knows it.
    #[cfg(feature = "testing")]
    pub(super) fn lose(&mut self, now: Now<'_>) {
        self.kept.clear();
        self.complete_since = now.wall();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{FencingToken, OwnerId, OwnerLabel, Request, SystemEnv};

    /// Records of names that nobody uses again leave the memory.
    #[test]
    fn memory_is_bounded_by_records_that_are_kept() {
        let mut records = Records::new();
        let label = OwnerLabel::new("test").unwrap();
        let write = RecordWrite::new("done", RecordWrite::SHORTEST_KEPT).unwrap();
        let mut clock = Instant::from_nanos(1);
        for number in 0..5_000_u32 {
            let name = LockName::new(format!("job {number}")).unwrap();
            let owner = OwnerId::from_bits(number.into());
            let request = Request::new(name, owner, label.clone(), Duration::ZERO, clock);
            let grant = Grant::new(&request, FencingToken::ZERO);
            records.write(&grant, &write, Now { clock, env: &SystemEnv });
            clock = clock + Duration::from_millis(20);
        }
        let kept = records.kept.len();
        assert!((50..=200).contains(&kept), "{kept}");
    }
}
