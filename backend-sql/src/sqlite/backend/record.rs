//! Records of names.

use async_trait::async_trait;
use lock_core::{Error, Grant, LockName, RecordRead, RecordWrite, WriteOutcome};
use sqlx::SqliteConnection;

use super::steps::{nanos, read_to_end};
use crate::{
    records::{Records, number_of, record_of},
    sqlite::{
        epoch::{now, wall_micros},
        store::Sqlite,
    },
};

/// What the connection waits for when it commits. In WAL mode with NORMAL, a loss of power may lose
/// the last commits; with FULL it loses none.
const FULL: i64 = 2;

impl Sqlite {
    async fn synchronous(&self, connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(self.sql.synchronous.clone()).fetch_one(connection).await
    }
}

#[async_trait]
impl Records for Sqlite {
    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        let read_at = |now| record_of(None, None, None, now);
        let Some(database) = self.reader().await? else { return read_at(wall_micros()) };
        let read = || {
            let query = sqlx::query_as::<_, (i64, Vec<u8>, i64)>(self.sql.read_record.clone());
            let query = query.bind(name.as_str());
            async { query.fetch_optional(&mut *database.lend().await?).await }
        };
        match self.file.while_busy(read).await? {
            Some((token, value, written)) => {
                record_of(Some(token), Some(value), Some(written), wall_micros())
            }
            None => read_at(wall_micros()),
        }
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let Some(database) = self.reader().await? else { return Ok(WriteOutcome::NotHeld) };
        let (name, owner) = (grant.name.as_str(), grant.owner.to_string());
        let (token, number) = (grant.token.get().cast_signed(), number_of(write));
        let once = || {
            let wall = wall_micros();
            let query = sqlx::query_scalar::<_, i64>(self.sql.write_record.clone());
            let query = query.bind(name).bind(&owner).bind(now()).bind(&self.epoch).bind(wall);
            let query = query.bind(token).bind(number).bind(&write.value);
            let query = query.bind(wall.saturating_add(nanos(write.keep_for) / 1_000 + 1));
            async {
                let mut lent = database.lend().await?;
                let before = self.synchronous(&mut lent).await?;
                if before < FULL {
                    set_synchronous(&mut lent, FULL).await?;
                }
                let written = read_to_end(query.fetch_all(&mut *lent)).await;
                if before < FULL {
                    set_synchronous(&mut lent, before).await?;
                }
                written
            }
        };
        if self.file.while_busy(once).await?.is_some() {
            return Ok(WriteOutcome::Written);
        }
        let is_written = || {
            let query = sqlx::query_scalar::<_, i64>(self.sql.is_written.clone());
            let query = query.bind(name).bind(token).bind(number);
            async { query.fetch_optional(&mut *database.lend().await?).await }
        };
        Ok(match self.file.while_busy(is_written).await? {
            Some(_) => WriteOutcome::Written,
            None => WriteOutcome::NotHeld,
        })
    }
}

/// Sets when the connection waits for the disk, for its next commits.
async fn set_synchronous(connection: &mut SqliteConnection, level: i64) -> Result<(), sqlx::Error> {
    let set = match level {
        0 => "PRAGMA synchronous = OFF",
        1 => "PRAGMA synchronous = NORMAL",
        _ => "PRAGMA synchronous = FULL",
    };
    sqlx::query(set).execute(connection).await.map(drop)
}
