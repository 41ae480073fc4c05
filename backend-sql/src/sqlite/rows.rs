//! Reads a row of the locks' table by the clock of this client's epoch. When its lease is over,
//! The part `over` of `acquire.sql` decides by the same rule.

use std::time::Duration;

use lock_core::Error;
use sqlx::{Row as _, sqlite::SqliteRow};

use super::epoch::now;
use crate::{dialect::Row, error::general};

/// Reads a row by our clock, which is that of `epoch`.
pub(super) fn read(row: &SqliteRow, epoch: &str) -> Result<Row, Error> {
    columns(row, epoch).map_err(general)?
}

fn columns(row: &SqliteRow, epoch: &str) -> Result<Result<Row, Error>, sqlx::Error> {
    let left = match end(row, epoch)? {
        Some(end) => end.saturating_sub(now()),
        // Another clock's row that this clock has not seen before: it counts as held for the whole
        // lease.
        None => row.try_get("lease")?,
    };
    let kept = row.try_get("kept")?;
    let readers: Option<i64> = row.try_get("readers")?;
    let waiting: Option<u32> = row.try_get("waiting")?;
    let before_us: u32 = row.try_get("before")?;
    let read = Row::read(
        // If the name cannot be read, an empty one makes this fail. A readable form of it would be
        // another name.
        row.try_get("name").unwrap_or_default(),
        text(row, "owner")?,
        text(row, "label")?,
        row.try_get("token")?,
        row.try_get("version")?,
        Duration::from_nanos(left.max(0) as u64),
    );
    Ok(read.map(|mut read| {
        (read.kept, read.waiting) = (kept, waiting.map(u64::from));
        read.set_readers(readers);
        read.set_before(before_us);
        read
    }))
}

/// When the lease of a row ends by our clock; `None` if this clock has not seen the row yet.
pub(super) fn end(row: &SqliteRow, epoch: &str) -> Result<Option<i64>, sqlx::Error> {
    if text(row, "epoch")? == Some(epoch) {
        row.try_get("expires").map(Some)
    } else {
        row.try_get("until")
    }
}

/// A column of text. SQLite may store text that is not UTF-8.
fn text<'r>(row: &'r SqliteRow, column: &str) -> Result<Option<&'r str>, sqlx::Error> {
    match row.try_get(column) {
        Err(sqlx::Error::ColumnDecode { .. }) => Ok(Some("\u{fffd}")),
        read => read,
    }
}
