//! Records of names: what a dialect does with them, and how a table keeps them.

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, Grant, LockName, Record, RecordRead, RecordWrite, StoreTime, WriteOutcome,
};

use crate::error::token_of;

/// The records of a database. By default it keeps none.
#[async_trait]
pub trait Records: Send + Sync {
    /// Reads the record of a name.
    async fn read_record(&self, _name: &LockName) -> Result<RecordRead, Error> {
        Err(Error::new(ErrorKind::Unsupported, "this store keeps no records"))
    }

    /// Writes the record of a name, if the grant holds the lock, or has made this write before.
    async fn write_record(
        &self,
        _grant: &Grant,
        _write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        Err(Error::new(ErrorKind::Unsupported, "this store keeps no records"))
    }
}

/// The number of a write, as a column keeps it.
pub(crate) fn number_of(write: &RecordWrite) -> i64 {
    i64::try_from(write.number).unwrap_or(i64::MAX)
}

/// A record, and the clock of its read, from their columns. A record without a token is none.
pub(crate) fn record_of(
    token: Option<i64>,
    value: Option<Vec<u8>>,
    written: Option<i64>,
    now: i64,
) -> Result<RecordRead, Error> {
    let micros = |column: i64| StoreTime::from_micros(u64::try_from(column).unwrap_or(0));
    let record = match token {
        Some(token) => {
            let written = micros(written.unwrap_or(0));
            Some(Record::new(value.unwrap_or_default(), token_of(token)?, written))
        }
        None => None,
    };
    Ok(RecordRead::new(record, micros(now)))
}
