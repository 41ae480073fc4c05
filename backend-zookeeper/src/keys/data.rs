//! The data of entries and of names.
//!
//! ZooKeeper counts the entries of a directory, and cannot add. So a token is the sum of the
//! number of its entry and an offset, which holders raise and never lower, and which a name's node
//! keeps. Numbers grow more slowly than microseconds: a holder whose token would lag behind the
//! clock raises the offset first, in one step with the check that it still has its entry.

use std::time::Duration;

use lock_core::{FencingToken, OwnerId, OwnerLabel, Record, Request, StoreTime};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use zookeeper_client::Stat;

/// The data of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntryData {
    pub(crate) owner: OwnerId,
    pub(crate) label: OwnerLabel,
    pub(crate) lease_millis: u64,
    /// The holder has released the lock, and it is kept without a session for the rest of a minimum
    /// hold: until then, on the clock of ZooKeeper's leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept_until_micros: Option<u64>,
}

impl EntryData {
    pub(crate) fn new(request: &Request, lease: Duration) -> Self {
        Self {
            owner: request.owner,
            label: request.label.clone(),
            lease_millis: lease.as_millis() as u64,
            kept_until_micros: None,
        }
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_millis)
    }
}

/// The data of a name's node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// An entry with this number ...
    pub(crate) number: i32,
    /// ... has this token.
    pub(crate) token: u64,
    /// The transaction that made the directory. In a new directory, numbers begin at 0 again.
    pub(crate) directory: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) record: Option<StoredRecord>,
}

/// The record of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRecord {
    /// In hexadecimal digits.
    value: String,
    pub(crate) token: u64,
    pub(crate) number: u64,
    written_micros: u64,
    until_micros: u64,
}

impl Note {
    /// The token of an entry in this directory.
    pub(crate) fn token_of(&self, number: i32, directory: i64) -> Option<FencingToken> {
        let further = i64::from(number.wrapping_sub(self.number));
        let token = self.token.checked_add_signed(further);
        // guard: new-directory | S2 | foreign::tokens_increase_over_the_removal_of_the_directory |
        //   self.directory == directory => true
        token.filter(|_| self.directory == directory).and_then(FencingToken::new)
    }

    /// The token of the last entry that came into this directory.
    pub(crate) fn last(&self, directory: &Stat) -> Option<FencingToken> {
        // ZooKeeper shows how often a child came or went, and how many are there.
        let came = directory.cversion.wrapping_add(directory.num_children).cast_unsigned() / 2;
        // Of this number only 31 bits are known. The entry of the note has come.
        let further =
            came.wrapping_sub(1).wrapping_sub(self.number.cast_unsigned()) & (u32::MAX >> 1);
        let token = self.token.checked_add(further.into());
        token.filter(|_| self.directory == directory.czxid).and_then(FencingToken::new)
    }

    /// At least the highest token that an entry may have: numbers grow by less than one in a
    /// microsecond.
    pub(crate) fn highest(&self, stat: &Stat, now_micros: u64) -> FencingToken {
        let since = now_micros.saturating_sub(micros(stat.mtime));
        FencingToken::new(self.token.saturating_add(since)).unwrap_or(FencingToken::MAX)
    }
}

impl StoredRecord {
    pub(crate) fn new(
        value: &[u8],
        token: FencingToken,
        number: u64,
        now_micros: u64,
        keep_for: Duration,
    ) -> Self {
        Self {
            value: value.iter().map(|byte| format!("{byte:02x}")).collect(),
            token: token.get(),
            number,
            written_micros: now_micros,
            until_micros: now_micros.saturating_add(keep_for.as_micros() as u64),
        }
    }

    /// Whether the store may forget it.
    pub(crate) fn is_over(&self, now_micros: u64) -> bool {
        self.until_micros < now_micros
    }

    pub(crate) fn record(&self) -> Option<Record> {
        let byte = |at: usize| u8::from_str_radix(self.value.get(at..at + 2)?, 16).ok();
        let value = (0..self.value.len()).step_by(2).map(byte).collect::<Option<Vec<_>>>()?;
        let written = StoreTime::from_micros(self.written_micros);
        Some(Record::new(value, FencingToken::new(self.token)?, written))
    }
}

pub(crate) fn micros(millis: i64) -> u64 {
    millis.max(0).cast_unsigned().saturating_mul(1_000)
}

/// The watermark of a bucket.
pub(crate) fn read_watermark(bytes: &[u8]) -> FencingToken {
    let number = String::from_utf8_lossy(bytes).parse().ok();
    number.and_then(FencingToken::new).unwrap_or(FencingToken::ZERO)
}

pub(crate) fn to_bytes(data: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(data).unwrap_or_default()
}

pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn tokens_grow_with_the_numbers_of_one_directory() {
        let note = Note { number: i32::MAX, token: 1_000, directory: 7, record: None };
        let token = |number| note.token_of(number, 7).map(FencingToken::get);
        assert_eq!(token(i32::MAX), Some(1_000));
        assert_eq!(token(i32::MIN), Some(1_001));
        assert_eq!(token(i32::MAX - 1), Some(999));
        assert_eq!(note.token_of(i32::MAX, 8), None);
    }

    #[test]
    fn the_last_token_follows_from_what_zookeeper_counts() {
        // Entries that came, of which so many are left.
        for (came, left) in
            [(5_u32, 0_u32), (5, 2), (1 << 30, 3), ((1 << 31) + 5, 1), (u32::MAX, 0)]
        {
            let directory = Stat {
                czxid: 7,
                mzxid: 7,
                pzxid: 9,
                ctime: 0,
                mtime: 0,
                version: 0,
                cversion: came.wrapping_mul(2).wrapping_sub(left).cast_signed(),
                aversion: 0,
                ephemeral_owner: 0,
                data_length: 0,
                num_children: left.cast_signed(),
            };
            let number = came.wrapping_sub(3).cast_signed();
            let note = Note { number, token: 1_000, directory: 7, record: None };
            assert_eq!(note.last(&directory).map(FencingToken::get), Some(1_002), "{came}, {left}");
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let all: Vec<u8> = (0..=255).collect();
        let token = FencingToken::new(5).unwrap();
        let stored = StoredRecord::new(&all, token, 1, 10, Duration::from_secs(1));
        let again: StoredRecord = read(&to_bytes(&stored)).unwrap();
        assert_eq!(again.record().unwrap().value, all);
        assert!(!again.is_over(1_000_010) && again.is_over(1_000_011));
    }
}
