//! Records of names.

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, Grant, LockName, Promise, RecordRead, RecordWrite, StoreTime, WriteOutcome,
};
use sqlx::Row as _;

use crate::{
    error::general,
    mysql::{
        statements::Argument::{Bytes, Number},
        store::Mysql,
    },
    records::{Records, number_of, record_of},
    servers::times::micros,
};

impl Mysql {
    /// A server that does not flush each commit gets no record: when it has lost one and its
    /// settings are others, nothing tells.
    async fn check_durability(&self) -> Result<(), Error> {
        let longest = self.promised.read().longest_lease;
        self.promise(longest).await?;
        match &self.promised.read().record {
            Promise::Holds { .. } => Ok(()),
            Promise::Withheld { why } => Err(Error::new(ErrorKind::Config, why.clone())),
        }
    }
}

#[async_trait]
impl Records for Mysql {
    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        let server = self.ready().await?;
        let name = [Bytes(name.as_str().as_bytes())];
        let rows = server.rows(&self.sql.read_record, &name).await?;
        let Some(row) = rows.first() else { return Err(general(sqlx::Error::RowNotFound)) };
        let read = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?));
        let (token, value, written, now) = read().map_err(general)?;
        let read = record_of(token, value, written, now)?;
        // Every record was flushed when its write was answered.
        let complete_since =
            if self.promised.read().record.holds() { StoreTime::EVER } else { read.now };
        Ok(read.with_complete_since(complete_since))
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let server = self.ready().await?;
        self.check_durability().await?;
        let (name, owner) = (Bytes(grant.name.as_str().as_bytes()), grant.owner.to_string());
        let (token, number) = (Number(grant.token.get().cast_signed()), Number(number_of(write)));
        let (value, keep_for) = (Bytes(&write.value), Number(micros(write.keep_for)));
        let arguments = [name, Bytes(owner.as_bytes()), token, number, value, keep_for];
        let answer = server.execute_repeatable(&self.sql.write_record, &arguments).await?;
        if answer.rows_affected() > 0 {
            return Ok(WriteOutcome::Written);
        }
        let written = self.number(&self.sql.is_written, &[name, token, number]).await?;
        Ok(if written.is_some() { WriteOutcome::Written } else { WriteOutcome::NotHeld })
    }
}
