//! Rows of the locks' table and answers of statements, as the client reads them.

use std::{fmt::Write as _, time::Duration};

use lock_core::{Error, LockName, OwnerId};
use sqlx::{
    Row as _,
    mysql::{MySqlQueryResult, MySqlRow},
};

use crate::{
    dialect::Row,
    error::general,
    servers::times::{micros, span},
};

/// The insert id of an answer: the statement sets it to a token, a version or its clock. `None` if
/// it did nothing.
pub fn insert_id(answer: &MySqlQueryResult) -> Option<i64> {
    Some(answer.last_insert_id().cast_signed()).filter(|id| *id != 0)
}

/// A column of text, which may come as bytes.
pub(super) fn text(row: &MySqlRow, at: usize) -> Result<String, sqlx::Error> {
    let bytes: Vec<u8> = row.try_get_unchecked(at)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The argument of a batch, as in `{batch}`: a JSON array of arrays.
pub(super) fn batch<'a>(
    entries: impl Iterator<Item = (&'a LockName, Option<(OwnerId, Duration)>)>,
) -> String {
    let mut json = String::from("[");
    for (name, renewal) in entries {
        json.push_str(if json.len() > 1 { ",[\"" } else { "[\"" });
        for byte in name.as_str().as_bytes() {
            let _ = write!(json, "{byte:02x}");
        }
        json.push('"');
        if let Some((owner, lease)) = renewal {
            let _ = write!(json, ",\"{owner}\",{}", micros(lease));
        }
        json.push(']');
    }
    json.push(']');
    json
}

pub(super) fn row(row: &MySqlRow) -> Result<Row, Error> {
    read(row).map_err(general)?
}

pub(super) fn read(row: &MySqlRow) -> Result<Result<Row, Error>, sqlx::Error> {
    let text = |column| {
        let bytes: Option<Vec<u8>> = row.try_get(column)?;
        Ok::<_, sqlx::Error>(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let remaining = span(row.try_get("remaining")?);
    let name = row.try_get("name").map(String::from_utf8)?;
    let (owner, label) = (text("owner")?, text("label")?);
    let (token, version) = (row.try_get("token")?, row.try_get("version")?);
    let (name, kept) = (name.unwrap_or_default(), row.try_get::<i8, _>("kept")? == 1);
    let read = Row::read(&name, owner.as_deref(), label.as_deref(), token, version, remaining);
    let readers: Option<i64> = row.try_get("readers")?;
    let waiting: Option<i64> = row.try_get("waiting")?;
    let ahead: i64 = row.try_get("ahead")?;
    let queued = row.try_get::<i64, _>("queued")? != 0;
    Ok(read.map(|mut read| {
        (read.kept, read.queued) = (kept, queued);
        read.waiting = waiting.map(i64::unsigned_abs);
        read.set_readers(readers);
        read.set_before(u32::try_from(ahead).unwrap_or(u32::MAX));
        read
    }))
}
