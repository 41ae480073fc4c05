//! Statements that several operations use.

use std::time::Duration;

use lock_core::{Error, ErrorKind, FencingToken, Grant, LockName, OwnerId, Request};
use sqlx::sqlite::SqliteRow;

use crate::{
    dialect::Row,
    error::token_of,
    sqlite::{
        epoch::{now, wall_micros},
        store::Sqlite,
    },
};

impl Sqlite {
    /// Reads the row of a name, for an owner that may have a queue entry, or for an operator.
    pub(super) async fn fetch(
        &self,
        name: &LockName,
        owner: Option<OwnerId>,
    ) -> Result<Option<SqliteRow>, Error> {
        let Some(database) = self.reader().await? else { return Ok(None) };
        let owner = owner.map(|owner| owner.to_string());
        let read = || {
            let query = sqlx::query(self.sql.read_row.clone()).bind(name.as_str()).bind(&owner);
            let query = query.bind(now()).bind(&self.epoch).bind(wall_micros());
            async { query.fetch_optional(&mut *database.lend().await?).await }
        };
        self.file.while_busy(read).await
    }

    /// Renews grants of one mode. Returns the owners that were renewed, and the longest lease in
    /// ms.
    pub(super) async fn renew_batch(
        &self,
        statement: &sqlx::SqlStr,
        grants: &[&Grant],
    ) -> Result<Vec<(String, i64)>, Error> {
        // Without a file, nothing in it was renewed. Only a request makes one.
        let Some(database) = self.reader().await? else { return Ok(Vec::new()) };
        let batch: Vec<_> = grants
            .iter()
            .map(|grant| (grant.name.as_str(), grant.owner.to_string(), nanos(grant.lease)))
            .collect();
        let wrong = |error| Error::new(ErrorKind::InvalidInput, "a batch").with_source(error);
        let batch = serde_json::to_string(&batch).map_err(wrong)?;
        let write = || {
            let query = sqlx::query_as::<_, (String, i64)>(statement.clone());
            let query = query.bind(now()).bind(&self.epoch).bind(&batch);
            async { query.fetch_all(&mut *database.lend().await?).await }
        };
        self.file.while_busy(write).await
    }

    /// Notes when the lease of another clock's row ends by our clock.
    pub(super) async fn note_sighting(&self, row: &Row) -> Result<(), Error> {
        self.write(|| {
            let query = sqlx::query(self.sql.note_sighting.clone()).bind(row.name.as_str());
            query.bind(now()).bind(&self.epoch).bind(row.version)
        })
        .await
    }

    /// Runs a statement that changes one owner's live grant. Returns the row's new version.
    pub(super) async fn change(
        &self,
        statement: &sqlx::SqlStr,
        grant: &Grant,
        last: Option<i64>,
    ) -> Result<Option<i64>, Error> {
        let database = self.database().await?;
        let owner = grant.owner.to_string();
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(statement.clone());
            let query = query.bind(grant.name.as_str()).bind(&owner).bind(now()).bind(&self.epoch);
            let query = match last {
                Some(last) => query.bind(last),
                None => query,
            };
            async { read_to_end(query.fetch_all(&mut *database.lend().await?)).await }
        };
        self.file.while_busy(write).await
    }

    /// Runs a statement that takes a lock. Returns the token.
    pub(super) async fn grant(
        &self,
        statement: &sqlx::SqlStr,
        request: &Request,
        version: Option<i64>,
    ) -> Result<Option<FencingToken>, Error> {
        let database = self.database().await?;
        let owner = request.owner.to_string();
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(statement.clone())
                .bind(request.name.as_str())
                .bind(&owner)
                .bind(request.label.as_str())
                .bind(nanos(request.lease))
                // The clocks are read again for each try, so that a wait for the database does not
                // make them stale.
                .bind(now())
                .bind(&self.epoch)
                .bind(wall_micros())
                .bind(request.floor.get() as i64 + 1);
            let query = match version {
                Some(version) => query.bind(version),
                None => query,
            };
            async { read_to_end(query.fetch_all(&mut *database.lend().await?)).await }
        };
        self.file.while_busy(write).await?.map(token_of).transpose()
    }
}

/// The one row of a statement that writes, once it is committed.
///
/// SQLite commits a statement after its last row. `fetch_optional` stops at the first row, and the
/// driver then commits without reporting whether that failed. So a grant on a full disk would exist
/// only in our memory.
pub(super) async fn read_to_end<T>(
    rows: impl Future<Output = Result<Vec<T>, sqlx::Error>>,
) -> Result<Option<T>, sqlx::Error> {
    Ok(rows.await?.pop())
}

pub(super) fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
