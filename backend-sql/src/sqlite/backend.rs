//! SQLite's side of the seam.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Guarantees, Init, LockName, OwnerId, Request, RwLock,
    StoreSettings, Waiter,
};
use sqlx::{AssertSqlSafe, Row as _, SqlitePool, sqlite::SqliteRow};
use tokio::sync::OnceCell;

use super::{
    bell::Bells,
    epoch::{self, now, today, wall_micros},
    guarantees::guarantees,
    open::File,
    rows,
    statements::{self, Statements},
};
use crate::{
    dialect::{Dialect, Handed, Left, Listed, Row, token_of},
    error::general,
    settings::{agree, check_longest, check_version, is_older},
    tunables::{
        TURN,
        sqlite::{REMEMBERED, SHORTEST_LEASE},
    },
    waiting::{Place, Places, Queue, QueueWaiter, Turn},
};

#[derive(Debug)]
pub(super) struct Sqlite {
    file: File,
    sql: Statements,
    epoch: String,
    places: Arc<Places>,
    bells: Arc<Bells>,
    promised: RwLock<Arc<Guarantees>>,
    agreed: OnceCell<()>,
}

/// What a release has left behind.
struct Passed {
    version: i64,
    /// Who has the lock now.
    owner: Option<OwnerId>,
    token: FencingToken,
}

impl Sqlite {
    pub(super) async fn new(file: File) -> Result<Self, Error> {
        let longest = file.settings.longest_lease_of_new();
        let places = Arc::new(Places::default());
        let bells = Arc::new(Bells::new(file.path.clone(), Arc::clone(&places)));
        let sqlite = Self {
            sql: Statements::new(&file.tables),
            epoch: epoch::current()?,
            promised: RwLock::new(Arc::new(guarantees(longest, &file.path, bells.is_heard()))),
            places,
            bells,
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
        let tables = &self.file.tables;
        let schema = statements::schema(tables, self.longest_lease().await?.as_millis() as i64);
        let write = || async {
            let mut all = pool.begin_with("BEGIN IMMEDIATE").await?;
            loop {
                let version = sqlx::query_scalar::<_, Option<i64>>(self.sql.version.clone());
                // A row that is gone is told of by the next step.
                let stored = version.fetch_one(&mut *all).await?.filter(|stored| is_older(*stored));
                let Some(stored) = stored else { break };
                let step = AssertSqlSafe(statements::upgrade(tables, stored));
                sqlx::raw_sql(step).execute(&mut *all).await?;
            }
            sqlx::raw_sql(AssertSqlSafe(schema.clone())).execute(&mut *all).await?;
            all.commit().await
        };
        self.file.while_busy(write).await
    }

    async fn longest_lease(&self) -> Result<Duration, Error> {
        let pool = self.file.pool().await?;
        let read = || async {
            sqlx::query_scalar::<_, i64>(self.sql.longest_lease.clone()).fetch_one(pool).await
        };
        self.file.while_busy(read).await.map(milliseconds)
    }

    fn set_promises(&self, longest: Duration) {
        let promised = guarantees(longest, &self.file.path, self.bells.is_heard());
        *self.promised.write() = Arc::new(promised);
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

    /// What is known of a name, by an owner that may have a place, or by nobody.
    async fn fetch(
        &self,
        name: &LockName,
        owner: Option<OwnerId>,
    ) -> Result<Option<SqliteRow>, Error> {
        let Some(pool) = self.reader().await? else { return Ok(None) };
        let owner = owner.map(|owner| owner.to_string());
        let read = || {
            let query = sqlx::query(self.sql.look.clone()).bind(name.as_str()).bind(&owner);
            let query = query.bind(now()).bind(&self.epoch).bind(wall_micros());
            async { query.fetch_optional(pool).await }
        };
        self.file.while_busy(read).await
    }

    /// Enters the place of a request, or says that it is alive.
    async fn enter(&self, request: &Request, place: &Place) -> Result<(), Error> {
        let pool = self.pool().await?;
        let (owner, bell) = (request.owner.to_string(), self.bells.own());
        let write = || {
            let query = sqlx::query(self.sql.enter.clone())
                .bind(request.name.as_str())
                .bind(&owner)
                .bind(request.label.as_str())
                .bind(request.floor.get() as i64)
                .bind(&bell)
                .bind(now())
                .bind(&self.epoch)
                .bind(wall_micros());
            async { query.execute(pool).await }
        };
        self.file.while_busy(write).await.inspect_err(|_| place.doubt()).map(drop)
    }

    /// Gives a grant back: to the first place, which is told; or to `next`, if nobody waits. `None`: nothing was done.
    async fn pass(&self, grant: &Grant, next: Option<&Request>) -> Result<Option<Passed>, Error> {
        let pool = self.pool().await?;
        let owner = grant.owner.to_string();
        let next_owner = next.map(|next| next.owner.to_string());
        let write = || {
            let query = sqlx::query_as::<_, (i64, Option<String>, i64, Option<String>)>(
                self.sql.release.clone(),
            )
            .bind(grant.name.as_str())
            .bind(&owner)
            .bind(now())
            .bind(&self.epoch)
            .bind(wall_micros())
            .bind(&next_owner)
            .bind(next.map(|next| next.label.as_str()))
            .bind(next.map(|next| nanos(next.lease)))
            .bind(next.map(|next| next.floor.get() as i64));
            async { read_to_end(query.fetch_all(pool)).await }
        };
        let passed = self.file.while_busy(write).await?;
        let Some((version, owner, token, bell)) = passed else { return Ok(None) };
        let owner = owner.map(|owner| owner.parse()).transpose()?;
        if let (Some(owner), Some(bell)) = (owner, bell) {
            self.bells.ring(&bell, owner);
        }
        Ok(Some(Passed { version, owner, token: token_of(token)? }))
    }

    /// Tells the first place of a name that the lock is free, if it is.
    async fn tell_first(&self, name: &LockName) -> Result<(), Error> {
        let pool = self.pool().await?;
        let read = || {
            let query = sqlx::query_as::<_, (String, Option<String>)>(self.sql.first.clone());
            let query = query.bind(name.as_str()).bind(now()).bind(&self.epoch).bind(wall_micros());
            async { query.fetch_optional(pool).await }
        };
        if let Some((owner, Some(bell))) = self.file.while_busy(read).await?
            && let Ok(owner) = owner.parse()
        {
            self.bells.ring(&bell, owner);
        }
        Ok(())
    }

    /// Takes the place of a request away, and what it holds unless that was released and is kept; and tells the next.
    async fn remove(&self, request: &Request) -> Result<(), Error> {
        let pool = self.pool().await?;
        let owner = request.owner.to_string();
        let write = || {
            let query = sqlx::query(self.sql.leave.clone()).bind(request.name.as_str());
            let query = query.bind(&owner);
            async { query.execute(pool).await }
        };
        // Before the lock, which might be given to it.
        self.file.while_busy(write).await?;
        let left = Grant::new(request, FencingToken::ZERO);
        self.change(&self.sql.withdraw, &left, None).await?;
        self.tell_first(&request.name).await
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
        let promised = Arc::clone(&self.promised.read());
        if promised.push != self.bells.is_heard() {
            self.set_promises(promised.longest_lease);
        }
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

    fn looks_first(&self, request: &Request) -> bool {
        self.places.looks_first(request)
    }

    async fn look(&self, name: &LockName) -> Result<Option<Row>, Error> {
        let row = self.fetch(name, None).await?;
        row.map(|row| rows::read(&row, &self.epoch)).transpose()
    }

    async fn look_to_take(&self, request: &Request) -> Result<Option<Row>, Error> {
        // Before the look: what is released after it is given to a place.
        if let Some(place) = self.places.of(request.owner)
            && place.enter()
        {
            self.enter(request, &place).await?;
        }
        let found = self.fetch(&request.name, Some(request.owner)).await?;
        let read = found.as_ref().map(|row| rows::read(row, &self.epoch)).transpose()?;
        self.places.note(request.owner, &request.name, read.as_ref());
        let (Some(found), Some(row)) = (found, read) else { return Ok(None) };
        let unseen = rows::end(&found, &self.epoch).map_err(general)?.is_none();
        if unseen && row.is_held() {
            self.adopt(&row).await?;
        }
        Ok(Some(row))
    }

    fn waiter(self: Arc<Self>, request: &Request) -> Box<dyn Waiter> {
        Box::new(QueueWaiter::new(self, request))
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
        if let Some(keep) = keep {
            return Ok(self.change(&self.sql.keep, grant, Some(nanos(keep))).await?.into());
        }
        Ok(match self.pass(grant, None).await? {
            None => Left::NotHeld,
            Some(Passed { owner: None, version, .. }) => Left::Free(version),
            Some(_) => Left::Taken,
        })
    }

    async fn hand_on(
        self: Arc<Self>,
        grant: &Grant,
        next: &Request,
    ) -> Result<Option<Handed>, Error> {
        let Some(passed) = self.pass(grant, Some(next)).await? else { return Ok(None) };
        if passed.owner == Some(next.owner) {
            return Ok(Some(Handed::Granted(passed.token)));
        }
        let waiter = QueueWaiter::new(Arc::clone(&self), next);
        if let Some(place) = self.places.of(next.owner) {
            place.enter();
            if let Err(error) = self.enter(next, &place).await {
                // Its first poll enters it.
                tracing::debug!(name = %next.name, %error, "no place yet");
            }
            // The lock may have been released before the place was there.
            place.wake();
        }
        Ok(Some(Handed::Queued(passed.token, Box::new(waiter))))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let pool = self.pool().await?;
        let owner = request.owner.to_string();
        // First the tombstone, so that a late statement finds it, then whatever an earlier one took or entered.
        let write = || {
            let query = sqlx::query(self.sql.abandon.clone()).bind(&owner);
            let query = query.bind(now()).bind(&self.epoch).bind(today());
            async { query.execute(pool).await }
        };
        self.file.while_busy(write).await?;
        self.remove(request).await
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
        let freed = self.file.while_busy(write).await?.is_some();
        if freed {
            self.tell_first(name).await?;
        }
        Ok(freed)
    }

    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Listed>, Error> {
        let Some(pool) = self.reader().await? else { return Ok(Vec::new()) };
        let read = || {
            let query = sqlx::query(self.sql.list.clone());
            let query = query.bind(after).bind(now()).bind(&self.epoch);
            let query = query.bind(wall_micros()).bind(limit);
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
        let write = || {
            let query = sqlx::query(self.sql.forget_places.clone()).bind(now());
            let query = query.bind(&self.epoch).bind(wall_micros());
            async { query.execute(pool).await }
        };
        self.file.while_busy(write).await?;
        let bells = Arc::clone(&self.bells);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || bells.sweep()).await {
            tracing::debug!(%error, "pipes of clients that have ended may be left");
        }
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
        self.bells.close();
        self.file.close().await;
    }
}

#[async_trait]
impl Queue for Sqlite {
    const TURN: Duration = TURN;

    fn places(&self) -> &Places {
        &self.places
    }

    fn is_woken(&self) -> bool {
        self.bells.is_heard()
    }

    async fn turn(&self, request: &Request) -> Result<Turn, Error> {
        let row = self.fetch(&request.name, Some(request.owner)).await?;
        Ok(match row.map(|row| rows::read(&row, &self.epoch)).transpose()? {
            Some(row) if row.is_held() && row.owner == Some(request.owner) => {
                Turn::Granted(row.token)
            }
            Some(row) if row.is_taken() => Turn::Wait(row.before_us),
            _ => Turn::Free,
        })
    }

    async fn leave(&self, request: &Request) -> Result<(), Error> {
        self.remove(request).await
    }
}
