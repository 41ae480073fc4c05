//! Rows of the locks' table and answers of statements, as the client reads them.

use std::{fmt::Write as _, time::Duration};

use lock_core::{Error, LockName, OwnerId};
use sqlx::{
    Row as _,
    mysql::{MySqlQueryResult, MySqlRow},
};

use crate::{
    dialect::Row,
    error::column,
    servers::times::{micros, span},
};

/// The length of a reader in the column of readers: its 32 digits, `-`, the end of its lease in 16
/// digits, and a comma.
pub(super) const READER: usize = 50;

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
    let text = |name| {
        let bytes: Option<Vec<u8>> = column(row, name)?;
        Ok::<_, Error>(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let name = String::from_utf8(column(row, "name")?).unwrap_or_default();
    let (owner, label) = (text("owner")?, text("label")?);
    let (token, version) = (column(row, "token")?, column(row, "version")?);
    let remaining = span(column(row, "remaining")?);
    let mut read = Row::read(&name, owner.as_deref(), label.as_deref(), token, version, remaining)?;
    read.kept = column::<_, i8>(row, "kept")? == 1;
    read.queued = column::<_, i64>(row, "queued")? != 0;
    let waiting: Option<i64> = column(row, "waiting")?;
    read.waiting = waiting.map(i64::unsigned_abs);
    let (readers, clock) = (text("readers")?, column(row, "clock")?);
    let living = readers.map(|readers| {
        (readers.split_inclusive(',').count() - ended(&readers, clock).len()) as i64
    });
    read.set_readers(living.or(column(row, "entries")?));
    let ahead: i64 = column(row, "ahead")?;
    read.set_before(u32::try_from(ahead).unwrap_or(u32::MAX));
    Ok(read)
}

/// The entries of the readers whose leases have ended, of a row that was read with its readers.
pub(super) fn ended_of(row: &MySqlRow) -> Result<Vec<String>, Error> {
    let readers: Option<Vec<u8>> = column(row, "readers")?;
    let readers = readers.unwrap_or_default();
    let readers = String::from_utf8_lossy(&readers);
    Ok(ended(&readers, column(row, "clock")?).into_iter().map(str::to_owned).collect())
}

/// The entries in a column of readers whose leases have ended by this clock. One that cannot be
/// read counts as a reader.
fn ended(readers: &str, clock: i64) -> Vec<&str> {
    let is_over = |entry: &&str| {
        let end = entry.trim_end_matches(',').split_once('-').map(|(_, end)| end.parse::<i64>());
        entry.len() == READER && end.is_some_and(|end| end.is_ok_and(|end| end <= clock))
    };
    readers.split_inclusive(',').filter(is_over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_one_until_its_lease_ends() {
        let [one, two] =
            ["1", "2"].map(|digit| format!("{}-0000000000000{digit}00,", digit.repeat(32)));
        let readers = format!("{one}{two}");
        assert_eq!(readers.len(), 2 * READER);
        assert_eq!(ended(&readers, 99), Vec::<&str>::new());
        assert_eq!(ended(&readers, 100), [one.as_str()]);
        assert_eq!(ended(&readers, 200), [one.as_str(), two.as_str()]);
    }
}
