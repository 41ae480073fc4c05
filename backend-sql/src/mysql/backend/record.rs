//! Records of names.

use std::time::Duration;

use lock_core::{Error, Grant, LockName, RecordRead, RecordWrite, StoreTime, WriteOutcome};
use sqlx::Row as _;

use crate::{
    dialect::{number_of, record_of},
    error::general,
    mysql::{
        guarantees::Loss,
        rows::text,
        statements::Argument::{Bytes, Number},
        store::Mysql,
    },
    servers::times::micros,
};

impl Mysql {
    pub(super) async fn read_record_of(&self, name: &LockName) -> Result<RecordRead, Error> {
        let server = self.ready().await?;
        let name = [Bytes(name.as_str().as_bytes())];
        let rows = server.rows(&self.sql.read_record, &name).await?;
        let Some(row) = rows.first() else { return Err(general(sqlx::Error::RowNotFound)) };
        let read = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?));
        let (token, value, written, now) = read().map_err(general)?;
        let read = record_of(token, value, written, now)?;
        let loss = self.promised.read().1;
        let complete_since = match loss {
            Loss::None => StoreTime::EVER,
            Loss::AtRestart => self.started(read.now).await?,
            Loss::AtAnyTime => read.now,
        };
        Ok(read.with_complete_since(complete_since))
    }

    /// When the server was started, or a little later.
    async fn started(&self, now: StoreTime) -> Result<StoreTime, Error> {
        let rows = self.server.rows(&self.sql.uptime, &[]).await?;
        let uptime = rows.first().map(|row| text(row, 1)).transpose().map_err(general)?;
        let uptime = uptime.and_then(|secs| secs.parse().ok()).map(Duration::from_secs);
        // A server, or a proxy before it, that does not tell.
        let uptime = uptime.unwrap_or_default().as_micros() as u64;
        Ok(StoreTime::from_micros(now.as_micros().saturating_sub(uptime)))
    }

    pub(super) async fn write_record_of(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let server = self.ready().await?;
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
