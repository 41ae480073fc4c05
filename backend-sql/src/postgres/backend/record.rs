//! Records of names.

use std::fmt::Write as _;

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, Grant, LockName, RecordRead, RecordWrite, StoreTime, WriteOutcome,
};
use sqlx::Row as _;

use crate::{
    error::general,
    postgres::{
        connection::arg::Arg::{Number, Span, Text},
        store::Postgres,
    },
    records::{Records, number_of, record_of},
};

#[async_trait]
impl Records for Postgres {
    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        let sql = &self.server.sql;
        let rows = self.run_repeatable(&sql.read_record, &[Text(name.as_str())]).await?;
        let Some(row) = rows.first() else { return Err(general(sqlx::Error::RowNotFound)) };
        let read = || {
            let value: Option<String> = row.try_get("value")?;
            let since: Option<i64> = row.try_get("complete_since")?;
            let (token, written) = (row.try_get("token")?, row.try_get("written")?);
            Ok((token, value.as_deref().map(bytes), written, row.try_get("now")?, since))
        };
        let (token, value, written, now, since) = read().map_err(general)?;
        let read = record_of(token, value, written, now)?;
        let since = since.map_or(read.now, |micros| StoreTime::from_micros(micros.unsigned_abs()));
        Ok(read.with_complete_since(since))
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let (owner, value) = (grant.owner.to_string(), digits(&write.value));
        let args = [
            Text(grant.name.as_str()),
            Text(&owner),
            Number(grant.token.get().cast_signed()),
            Number(number_of(write)),
            Text(&value),
            Span(write.keep_for),
        ];
        let rows = self.run_repeatable(&self.server.sql.write_record, &args).await?;
        let Some(row) = rows.first() else { return Err(general(sqlx::Error::RowNotFound)) };
        if row.try_get(1).map_err(general)? {
            let message = "the table of records is UNLOGGED, so a crash empties it; run ALTER TABLE … SET LOGGED";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let written: bool = row.try_get(0).map_err(general)?;
        Ok(if written { WriteOutcome::Written } else { WriteOutcome::NotHeld })
    }
}

/// A value in hexadecimal digits.
fn digits(value: &[u8]) -> String {
    value.iter().fold(String::with_capacity(2 * value.len()), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// The value that the server has written in hexadecimal digits.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| std::str::from_utf8(pair).ok().and_then(|it| u8::from_str_radix(it, 16).ok());
    pairs.filter_map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_same_after_its_digits() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(digits(&all[..17]), "000102030405060708090a0b0c0d0e0f10");
        assert_eq!(bytes(&digits(&all)), all);
        assert_eq!(bytes(""), Vec::<u8>::new());
    }
}
