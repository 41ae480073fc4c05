//! Reads a row of the locks' table by the clock of this client's epoch. When its lease is over,
//! The part `over` of `acquire.sql` decides by the same rule.

use std::time::Duration;

use lock_core::Error;
use sqlx::{Row as _, sqlite::SqliteRow};

use super::epoch::now;
use crate::{
    dialect::Row,
    error::{column, general},
};

/// Reads a row by our clock, which is that of `epoch`.
pub(super) fn read(row: &SqliteRow, epoch: &str) -> Result<Row, Error> {
    let left = match end(row, epoch)? {
        Some(end) => end.saturating_sub(now()),
        // Another clock's row that this clock has not seen before: it counts as held for the whole
        // lease.
        None => column(row, "lease")?,
    };
    let mut read = Row::read(
        // If the name cannot be read, an empty one makes this fail. A readable form of it would be
        // another name.
        row.try_get("name").unwrap_or_default(),
        text(row, "owner")?,
        text(row, "label")?,
        column(row, "token")?,
        column(row, "version")?,
        Duration::from_nanos(left.max(0) as u64),
    )?;
    read.kept = column(row, "kept")?;
    read.set_readers(column(row, "readers")?);
    let waiting: Option<u32> = column(row, "waiting")?;
    read.waiting = waiting.map(u64::from);
    read.set_before(column(row, "before")?);
    Ok(read)
}

/// When the lease of a row ends by our clock; `None` if this clock has not seen the row yet.
pub(super) fn end(row: &SqliteRow, epoch: &str) -> Result<Option<i64>, Error> {
    let column_of_end = if text(row, "epoch")? == Some(epoch) { "expires" } else { "until" };
    column(row, column_of_end)
}

/// A column of text. SQLite may store text that is not UTF-8.
fn text<'r>(row: &'r SqliteRow, at: &str) -> Result<Option<&'r str>, Error> {
    match row.try_get(at) {
        Err(sqlx::Error::ColumnDecode { .. }) => Ok(Some("\u{fffd}")),
        read => read.map_err(general),
    }
}
