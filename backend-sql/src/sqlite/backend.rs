//! SQLite's side of the seam.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Guarantees, Init, LockName, Request, RwLock,
    StoreSettings,
};
use sqlx::{Row as _, SqlitePool, sqlite::SqliteRow};
use tokio::sync::OnceCell;

use super::{
    epoch::{self, now, today, wall_micros},
    guarantees::guarantees,
    open::File,
    rows,
    statements::Statements,
};
use crate::{
    dialect::{Dialect, Left, Listed, Row, token_of},
    error::general,
    settings::{agree, check_longest, check_version, is_older},
    tunables::sqlite::{REMEMBERED, SHORTEST_LEASE},
};

#[derive(Debug)]
pub(super) struct Sqlite {
    file: File,
    sql: Statements,
    epoch: String,
    promised: RwLock<Arc<Guarantees>>,
    agreed: OnceCell<()>,
}

impl Sqlite {
    pub(super) async fn new(file: File) -> Result<Self, Error> {
        let longest = file.settings.longest_lease_of_new();
        let sqlite = Self {
            sql: Statements::new(&file.tables),
            epoch: epoch::current()?,
            promised: RwLock::new(Arc::new(guarantees(longest, &file.path))),
            agreed: OnceCell::new(),
            file,
        };
        // A file that is not there is made by the first use that writes, with what we were told.
        // An older one is for `init` to upgrade; every other step makes sure that it is ready.
        if sqlite.file.is_there() && !is_older(sqlite.version().await?) {
            sqlite.agree_once().await?;
        }
        Ok(sqlite)
    }

    /// Takes the store's longest lease over, or refuses the store if it is not what we were told.
    async fn agree(&self) -> Result<(), Error> {
        check_version(self.version().await?)?;
        let longest = self.longest_lease().await?;
        agree(self.file.settings.longest_lease, longest)?;
        self.set_promises(longest);
        Ok(())
    }

    /// The version of the records.
    async fn version(&self) -> Result<i64, Error> {
        let pool = self.file.pool().await?;
        let read = || async {
            sqlx::query_scalar::<_, Option<i64>>(self.sql.version.clone()).fetch_one(pool).await
        };
        let stored = self.file.while_busy(read).await?;
        stored.ok_or_else(|| Error::new(ErrorKind::Config, "the row of settings is gone"))
    }

    /// Upgrades older tables. Another may do so at once, and then it need not be done.
    async fn upgrade(&self) -> Result<(), Error> {
        let stored = self.version().await?;
        if !is_older(stored) {
            return check_version(stored);
        }
        let pool = self.file.pool().await?;
        let write = || async { sqlx::query(self.sql.upgrade.clone()).execute(pool).await };
        let upgraded = self.file.while_busy(write).await;
        if is_older(self.version().await?) { upgraded.map(drop) } else { Ok(()) }
    }

    async fn longest_lease(&self) -> Result<Duration, Error> {
        let pool = self.file.pool().await?;
        let read = || async {
            sqlx::query_scalar::<_, i64>(self.sql.longest_lease.clone()).fetch_one(pool).await
        };
        self.file.while_busy(read).await.map(milliseconds)
    }

    fn set_promises(&self, longest: Duration) {
        *self.promised.write() = Arc::new(guarantees(longest, &self.file.path));
    }

    /// The pool for a statement that only reads; `None` while there is nothing to read.
    async fn reader(&self) -> Result<Option<&SqlitePool>, Error> {
        if self.file.is_there() { self.pool().await.map(Some) } else { Ok(None) }
    }

    /// The pool, once this client agrees with the store.
    async fn pool(&self) -> Result<&SqlitePool, Error> {
        self.agree_once().await?;
        self.file.pool().await
    }

    async fn fetch(&self, name: &LockName) -> Result<Option<SqliteRow>, Error> {
        let Some(pool) = self.reader().await? else { return Ok(None) };
        let read = || {
            let query = sqlx::query(self.sql.look.clone()).bind(name.as_str()).bind(&self.epoch);
            async { query.fetch_optional(pool).await }
        };
        self.file.while_busy(read).await
    }

    async fn adopt(&self, row: &Row) -> Result<(), Error> {
        let pool = self.pool().await?;
        let write = || {
            let query = sqlx::query(self.sql.adopt.clone()).bind(row.name.as_str());
            let query = query.bind(now()).bind(&self.epoch).bind(row.version);
            async { query.execute(pool).await }
        };
        self.file.while_busy(write).await.map(drop)
    }

    /// A statement that changes one owner's live grant and tells its new version.
    async fn change(
        &self,
        statement: &sqlx::SqlStr,
        grant: &Grant,
        last: Option<i64>,
    ) -> Result<Option<i64>, Error> {
        let pool = self.pool().await?;
        let owner = grant.owner.to_string();
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(statement.clone());
            let query = query.bind(grant.name.as_str()).bind(&owner).bind(now()).bind(&self.epoch);
            let query = match last {
                Some(last) => query.bind(last),
                None => query,
            };
            async { read_to_end(query.fetch_all(pool)).await }
        };
        self.file.while_busy(write).await
    }

    /// A statement that takes a lock and tells the token.
    async fn grant(
        &self,
        statement: &sqlx::SqlStr,
        request: &Request,
        version: Option<i64>,
    ) -> Result<Option<FencingToken>, Error> {
        let pool = self.pool().await?;
        let owner = request.owner.to_string();
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(statement.clone())
                .bind(request.name.as_str())
                .bind(&owner)
                .bind(request.label.as_str())
                .bind(nanos(request.lease))
                // Read anew for each try: what waits for the database must not make them old.
                .bind(now())
                .bind(&self.epoch)
                .bind(wall_micros())
                .bind(request.floor.get() as i64 + 1);
            let query = match version {
                Some(version) => query.bind(version),
                None => query,
            };
            async { read_to_end(query.fetch_all(pool)).await }
        };
        self.file.while_busy(write).await?.map(token_of).transpose()
    }
}

/// The one row of a statement that writes, once it is committed.
///
/// SQLite commits a statement after its last row. `fetch_optional` stops at the first, and the driver
/// then commits without telling whether that failed, so that a grant on a full disk would be one in
/// our memory only.
async fn read_to_end<T>(
    rows: impl Future<Output = Result<Vec<T>, sqlx::Error>>,
) -> Result<Option<T>, sqlx::Error> {
    Ok(rows.await?.pop())
}

/// The argument of a batch.
fn json(batch: &impl serde::Serialize) -> Result<String, Error> {
    let wrong = |error| Error::new(ErrorKind::InvalidInput, "a batch").with_source(error);
    serde_json::to_string(batch).map_err(wrong)
}

fn milliseconds(stored: i64) -> Duration {
    Duration::from_millis(u64::try_from(stored).unwrap_or(0))
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[async_trait]
impl Dialect for Sqlite {
    const KIND: &'static str = "sqlite";

    fn timeout(&self) -> Duration {
        self.file.settings.timeout
    }

    async fn identity(&self) -> Result<String, Error> {
        let pool = self.pool().await?;
        let read = || async {
            sqlx::query_scalar::<_, String>(self.sql.identity.clone()).fetch_one(pool).await
        };
        self.file.while_busy(read).await
    }

    async fn agree_once(&self) -> Result<(), Error> {
        self.agreed.get_or_try_init(|| self.agree()).await.copied()
    }

    async fn check_version(&self) -> Result<(), Error> {
        if !self.file.is_there() {
            return Ok(());
        }
        check_version(self.version().await?)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        Arc::clone(&self.promised.read())
    }

    fn broken(&self) -> u64 {
        self.file.retry.broken()
    }

    async fn insert(&self, request: &Request) -> Result<Option<FencingToken>, Error> {
        self.grant(&self.sql.insert, request, None).await
    }

    async fn create(&self, name: &LockName) -> Result<(), Error> {
        let pool = self.pool().await?;
        let write = || {
            let query = sqlx::query(self.sql.create.clone()).bind(name.as_str()).bind(&self.epoch);
            async { query.execute(pool).await }
        };
        self.file.while_busy(write).await.map(drop)
    }

    async fn take(&self, request: &Request, version: i64) -> Result<Option<FencingToken>, Error> {
        self.grant(&self.sql.take, request, Some(version)).await
    }

    async fn look(&self, name: &LockName) -> Result<Option<Row>, Error> {
        let row = self.fetch(name).await?;
        row.map(|row| rows::read(&row, &self.epoch)).transpose()
    }

    async fn look_to_take(&self, request: &Request) -> Result<Option<Row>, Error> {
        let Some(row) = self.fetch(&request.name).await? else { return Ok(None) };
        let unseen = rows::end(&row, &self.epoch).map_err(general)?.is_none();
        let row = rows::read(&row, &self.epoch)?;
        if unseen && row.is_held() {
            self.adopt(&row).await?;
        }
        Ok(Some(row))
    }

    async fn free(&self, names: &[&LockName]) -> Result<Vec<bool>, Error> {
        let pool = self.pool().await?;
        let asked: Vec<_> = names.iter().map(|name| name.as_str()).collect();
        let asked = json(&asked)?;
        let read = || {
            let query = sqlx::query_scalar::<_, String>(self.sql.held.clone());
            let query = query.bind(&asked).bind(now()).bind(&self.epoch);
            async { query.fetch_all(pool).await }
        };
        let held: HashSet<String> = self.file.while_busy(read).await?.into_iter().collect();
        Ok(names.iter().map(|name| !held.contains(name.as_str())).collect())
    }

    async fn renew(&self, grants: &[&Grant]) -> Result<Vec<Option<Duration>>, Error> {
        let pool = self.pool().await?;
        let batch: Vec<_> = grants
            .iter()
            .map(|grant| (grant.name.as_str(), grant.owner.to_string(), nanos(grant.lease)))
            .collect();
        let batch = json(&batch)?;
        let write = || {
            let query = sqlx::query_as::<_, (String, i64)>(self.sql.renew.clone());
            let query = query.bind(now()).bind(&self.epoch).bind(&batch);
            async { query.fetch_all(pool).await }
        };
        let longest: HashMap<_, _> = self.file.while_busy(write).await?.into_iter().collect();
        let set = |grant: &&Grant| {
            let longest = milliseconds(*longest.get(&grant.owner.to_string())?);
            Some(grant.lease.min(longest))
        };
        Ok(grants.iter().map(set).collect())
    }

    async fn release(&self, grant: &Grant, keep: Option<Duration>) -> Result<Left, Error> {
        let version = match keep {
            Some(keep) => self.change(&self.sql.keep, grant, Some(nanos(keep))).await?,
            None => self.change(&self.sql.release, grant, None).await?,
        };
        Ok(version.into())
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let pool = self.pool().await?;
        let owner = request.owner.to_string();
        // First the tombstone, so that a late statement finds it, then whatever an earlier one took.
        let write = || {
            let query = sqlx::query(self.sql.abandon.clone()).bind(&owner);
            let query = query.bind(now()).bind(&self.epoch).bind(today());
            async { query.execute(pool).await }
        };
        self.file.while_busy(write).await?;
        let left = Grant::new(request, FencingToken::ZERO);
        self.change(&self.sql.withdraw, &left, None).await.map(drop)
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<bool, Error> {
        let token = token.get() as i64;
        Ok(self.change(&self.sql.raise, grant, Some(token)).await?.is_some())
    }

    async fn force(&self, name: &LockName) -> Result<bool, Error> {
        let Some(pool) = self.reader().await? else { return Ok(false) };
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(self.sql.force.clone());
            let query = query.bind(name.as_str()).bind(now()).bind(&self.epoch);
            let query = query.bind(wall_micros());
            async { read_to_end(query.fetch_all(pool)).await }
        };
        Ok(self.file.while_busy(write).await?.is_some())
    }

    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Listed>, Error> {
        let Some(pool) = self.reader().await? else { return Ok(Vec::new()) };
        let read = || {
            let query = sqlx::query(self.sql.list.clone());
            let query = query.bind(after).bind(now()).bind(&self.epoch).bind(limit);
            async { query.fetch_all(pool).await }
        };
        let rows = self.file.while_busy(read).await?;
        let listed = |row: &SqliteRow| Ok((row.try_get("place")?, rows::read(row, &self.epoch)));
        rows.iter().map(listed).collect::<Result<_, _>>().map_err(general)
    }

    async fn sweep(&self, rows: bool) -> Result<(), Error> {
        let pool = self.pool().await?;
        if rows {
            for statement in [&self.sql.raise_watermark, &self.sql.sweep] {
                let write = || {
                    let query = sqlx::query(statement.clone()).bind(now()).bind(&self.epoch);
                    async { query.execute(pool).await }
                };
                self.file.while_busy(write).await?;
            }
        }
        let write = || async { sqlx::query(self.sql.forget_seen.clone()).execute(pool).await };
        self.file.while_busy(write).await?;
        let before = now().saturating_sub(nanos(REMEMBERED));
        let write = || {
            let query = sqlx::query(self.sql.forget.clone()).bind(before);
            let query = query.bind(&self.epoch).bind(today());
            async { query.execute(pool).await }
        };
        self.file.while_busy(write).await.map(drop)
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_restored(
            "it has no quarantine; keep all clients stopped for one longest lease after a restore",
        )?;
        if init.reset_tokens {
            let message = "this store cannot set its tokens back, since it has no quarantine in which its \
                           clock could pass those of before; keep all clients stopped for one longest \
                           lease, drop the tables, or remove a file that has no others, and make them anew";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if init.quarantine.is_some() {
            let message = "this store cannot lose grants that are still held, \
                           and has no quarantine to turn on or off";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if let Some(longest) = init.longest_lease {
            check_longest(longest, SHORTEST_LEASE)?;
        }
        self.upgrade().await?;
        if let Some(longest) = init.longest_lease {
            let pool = self.file.pool().await?;
            let write = || {
                let query = sqlx::query(self.sql.set_longest_lease.clone());
                let query = query.bind(longest.as_millis() as i64);
                async { query.execute(pool).await }
            };
            self.file.while_busy(write).await?;
        }
        let longest = self.longest_lease().await?;
        self.set_promises(longest);
        Ok(StoreSettings::new(longest, None))
    }

    async fn clock_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn highest_token(&self) -> Result<i64, Error> {
        let Some(pool) = self.reader().await? else { return Ok(0) };
        let read = || async {
            sqlx::query_scalar::<_, i64>(self.sql.highest_token.clone()).fetch_one(pool).await
        };
        self.file.while_busy(read).await
    }

    async fn close(&self) {
        self.file.close().await;
    }
}
