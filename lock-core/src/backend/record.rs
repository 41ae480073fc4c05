//! The record of a name: a small value that outlives the lock.

use std::{fmt, time::Duration};

use serde::Serialize;

use super::check_span;
use crate::{
    Error, ErrorKind, FencingToken, StoreTime,
    tunables::{LARGEST_RECORD, LONGEST_KEPT, SHORTEST_KEPT},
};

/// The record of a name, as a holder of the lock wrote it.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Record {
    /// The value.
    pub value: Vec<u8>,
    /// The token of the grant under which it was written.
    pub token: FencingToken,
    /// When it was written, on the store's clock.
    pub written: StoreTime,
}

impl Record {
    /// A record that a holder with this token wrote at this time.
    #[must_use]
    pub fn new(value: Vec<u8>, token: FencingToken, written: StoreTime) -> Self {
        Self { value, token, written }
    }
}

/// The value is the caller's, and may be secret: only its length is shown.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("bytes", &self.value.len())
            .field("token", &self.token)
            .field("written", &self.written)
            .finish()
    }
}

/// The answer to [`Backend::read_record`](crate::Backend::read_record).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecordRead {
    /// The record; `None` if none was written, or the store has forgotten it.
    pub record: Option<Record>,
    /// The time of the read on the store's clock.
    pub now: StoreTime,
    /// The store may have lost records that were written before this. An older record may stand in
    /// their place. [`StoreTime::EVER`] if the store has lost none.
    pub complete_since: StoreTime,
}

impl RecordRead {
    /// An answer of a store that has lost nothing.
    #[must_use]
    pub fn new(record: Option<Record>, now: StoreTime) -> Self {
        Self { record, now, complete_since: StoreTime::EVER }
    }

    /// Sets [`complete_since`](Self::complete_since).
    #[must_use]
    pub fn with_complete_since(mut self, complete_since: StoreTime) -> Self {
        self.complete_since = complete_since;
        self
    }

    /// Whether the store has lost no record that was written in the last `span`. If it has, it is
    /// unknown whether one was written, unless [`record`](Self::record) is such a one.
    #[must_use]
    pub fn is_complete_for(&self, span: Duration) -> bool {
        self.complete_since + span <= self.now
    }
}

/// A write of a record.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordWrite {
    /// The value.
    pub value: Vec<u8>,
    /// How long the store keeps the record at least.
    pub keep_for: Duration,
    /// Counts the writes of one grant, from 1. A repeat of a write has the same number. So a late
    /// request cannot replace a later write.
    pub number: u64,
}

impl RecordWrite {
    /// The most bytes of a value.
    pub const LARGEST: usize = LARGEST_RECORD;
    /// The shortest `keep_for`.
    pub const SHORTEST_KEPT: Duration = SHORTEST_KEPT;
    /// The longest `keep_for`.
    pub const LONGEST_KEPT: Duration = LONGEST_KEPT;

    /// The first write of a grant.
    ///
    /// # Errors
    /// `InvalidInput` for a value of more than 1024 bytes, and for a `keep_for` that is not between
    /// 1 s and 10 years of 365 days.
    pub fn new(value: impl Into<Vec<u8>>, keep_for: Duration) -> Result<Self, Error> {
        let value = value.into();
        if value.len() > LARGEST_RECORD {
            let message = format!(
                "the record has {} bytes; it must have at most {LARGEST_RECORD}",
                value.len()
            );
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        check_span("keep_for", keep_for, SHORTEST_KEPT, LONGEST_KEPT)?;
        Ok(Self { value, keep_for, number: 1 })
    }

    /// Sets [`number`](Self::number).
    #[must_use]
    pub fn with_number(mut self, number: u64) -> Self {
        self.number = number;
        self
    }
}

/// As [`Record`]: only the length of the value is shown.
impl fmt::Debug for RecordWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordWrite")
            .field("bytes", &self.value.len())
            .field("keep_for", &self.keep_for)
            .field("number", &self.number)
            .finish()
    }
}

/// What a write of a record did. The list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The record has this value, or that of a later write of the same grant.
    Written,
    /// The grant does not hold the lock; the call changed nothing.
    NotHeld,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_out_of_range_is_refused_with_the_range() {
        let day = Duration::from_secs(86_400);
        RecordWrite::new(vec![0; 1024], day).unwrap();
        let error = RecordWrite::new(vec![0; 1025], day).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.contains("1025 bytes") && text.contains("at most 1024"), "{text}");
        for keep_for in [Duration::ZERO, Duration::from_millis(999), day * 3_651] {
            let error = RecordWrite::new("", keep_for).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("between 1s and"), "{error}");
        }
    }

    #[test]
    fn no_value_is_shown() {
        let write = RecordWrite::new("hunter2", SHORTEST_KEPT).unwrap();
        let record = Record::new(write.value.clone(), FencingToken::ZERO, StoreTime::EVER);
        let shown = format!("{write:?} {record:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("104"), "{shown}");
        assert!(shown.contains("bytes: 7"), "{shown}");
    }

    #[test]
    fn a_read_is_complete_for_the_time_since_the_last_loss() {
        let at = |secs| StoreTime::EVER + Duration::from_secs(secs);
        let read = RecordRead::new(None, at(100));
        assert!(read.is_complete_for(Duration::from_secs(100)));
        let read = read.with_complete_since(at(40));
        assert!(read.is_complete_for(Duration::from_secs(60)));
        assert!(!read.is_complete_for(Duration::from_secs(61)));
        // A store whose clock went back.
        assert!(!read.with_complete_since(at(101)).is_complete_for(Duration::ZERO));
    }
}
