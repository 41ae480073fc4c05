//! PostgreSQL's side of the seam.

use std::{
    collections::HashSet,
    future::Future,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Env as _, Error, ErrorKind, FencingToken, Grant, Guarantees, Init, LockName, Quarantined,
    Request, StoreSettings, SystemEnv,
};
use sqlx::{AssertSqlSafe, PgPool, Row as _, SqlStr, postgres::PgRow};
use tokio::sync::OnceCell;

use super::{
    config::PostgresBuilder,
    error::failure,
    promises::promises,
    statements::{self, Statements},
};
use crate::{
    dialect::{Dialect, Row, token_of},
    error::general,
    patience::Patience,
    settings::{Settings, agree, check_longest},
    tables::Tables,
};

#[derive(Debug)]
pub(super) struct Postgres {
    pool: PgPool,
    /// Whether the pool is the user's, and stays open.
    given: bool,
    sql: Statements,
    tables: Tables,
    settings: Settings,
    patience: Patience,
    promised: RwLock<Arc<Guarantees>>,
    agreed: OnceCell<()>,
}

impl Postgres {
    /// Of a pool of our own, at most.
    pub(super) const CONNECTIONS: u32 = 4;

    pub(super) async fn new(
        pool: PgPool,
        given: bool,
        tables: Tables,
        settings: Settings,
    ) -> Result<Self, Error> {
        let promised = RwLock::new(Arc::new(promises(settings.longest_lease_of_new())));
        let patience = Patience { timeout: settings.timeout, whom: "the server".into() };
        let sql = Statements::new(&tables);
        let agreed = OnceCell::new();
        let this = Self { pool, given, sql, tables, settings, patience, promised, agreed };
        if this.is_there().await? {
            this.ready().await?;
        }
        Ok(this)
    }

    async fn is_there(&self) -> Result<bool, Error> {
        let table = self.tables.fill("{settings}", '"');
        let read = || {
            let query = sqlx::query_scalar::<_, bool>(self.sql.exists.clone()).bind(&table);
            query.fetch_all(&self.pool)
        };
        Ok(self.again(read).await?.first() == Some(&true))
    }

    /// Takes the store's longest lease over, once, or refuses the store if it is not what we were
    /// told.
    async fn ready(&self) -> Result<&PgPool, Error> {
        self.agreed.get_or_try_init(|| self.agree()).await?;
        Ok(&self.pool)
    }

    async fn agree(&self) -> Result<(), Error> {
        let longest = self.longest_lease().await?;
        agree(self.settings.longest_lease, longest)?;
        self.set_promises(longest);
        Ok(())
    }

    async fn longest_lease(&self) -> Result<Duration, Error> {
        match self.number(&self.sql.settings).await? {
            Some(longest) => Ok(span(longest)),
            None => Err(Error::new(ErrorKind::Config, "the row of settings is gone")),
        }
    }

    fn set_promises(&self, longest: Duration) {
        *self.promised.write().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(promises(longest));
    }

    async fn patiently<T, Fut>(&self, run: impl Fn() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, sqlx::Error>>,
    {
        self.patience.patiently(failure, run).await
    }

    /// The same for a statement that may be carried out twice.
    async fn again<T, Fut>(&self, run: impl Fn() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, sqlx::Error>>,
    {
        self.patience.again(Self::CONNECTIONS, failure, run).await
    }

    /// A statement without arguments that tells one number.
    async fn number(&self, statement: &SqlStr) -> Result<Option<i64>, Error> {
        let read = || sqlx::query_scalar::<_, i64>(statement.clone()).fetch_all(&self.pool);
        Ok(self.again(read).await?.pop())
    }

    /// A statement without arguments that changes something.
    async fn execute(&self, statement: &SqlStr) -> Result<(), Error> {
        let write = || sqlx::query(statement.clone()).execute(&self.pool);
        self.patiently(write).await.map(drop)
    }

    /// A statement that changes one owner's live grant and tells its new version.
    async fn change(
        &self,
        statement: &SqlStr,
        grant: &Grant,
        last: Option<i64>,
    ) -> Result<Option<i64>, Error> {
        let pool = self.ready().await?;
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(statement.clone());
            let query = query.bind(grant.name.as_str()).bind(grant.owner.to_string());
            let query = match last {
                Some(last) => query.bind(last),
                None => query,
            };
            query.fetch_all(pool)
        };
        Ok(self.patiently(write).await?.pop())
    }

    /// A statement that takes a lock and tells the token.
    async fn grant(
        &self,
        statement: &SqlStr,
        request: &Request,
        version: Option<i64>,
    ) -> Result<Option<FencingToken>, Error> {
        let pool = self.ready().await?;
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(statement.clone())
                .bind(request.name.as_str())
                .bind(request.owner.to_string())
                .bind(request.label.as_str())
                .bind(micros(request.lease))
                .bind(request.floor.get().cast_signed() + 1);
            let query = match version {
                Some(version) => query.bind(version),
                None => query,
            };
            query.fetch_all(pool)
        };
        self.again(write).await?.pop().map(token_of).transpose()
    }

    fn row(row: &PgRow) -> Result<Row, Error> {
        Self::read(row).map_err(general)?
    }

    fn read(row: &PgRow) -> Result<Result<Row, Error>, sqlx::Error> {
        Ok(Row::read(
            row.try_get("name")?,
            row.try_get("owner")?,
            row.try_get("label")?,
            row.try_get("token")?,
            row.try_get("version")?,
            span(row.try_get("remaining")?),
        ))
    }
}

/// Microseconds, rounded up.
fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[async_trait]
impl Dialect for Postgres {
    const KIND: &'static str = "postgres";

    async fn identity(&self) -> Result<String, Error> {
        let pool = self.ready().await?;
        let read = || sqlx::query_scalar::<_, String>(self.sql.identity.clone()).fetch_all(pool);
        let missing = || Error::new(ErrorKind::Config, "the server shows no system identifier");
        self.again(read).await?.pop().ok_or_else(missing)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        Arc::clone(&self.promised.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn highest_floor(&self) -> FencingToken {
        let ahead = self.guarantees().longest_lease.as_micros() as u64;
        FencingToken::new(SystemEnv.wall_micros() + ahead).unwrap_or(FencingToken::MAX)
    }

    async fn insert(&self, request: &Request) -> Result<Option<FencingToken>, Error> {
        self.grant(&self.sql.insert, request, None).await
    }

    async fn create(&self, name: &LockName) -> Result<(), Error> {
        let pool = self.ready().await?;
        let write = || sqlx::query(self.sql.create.clone()).bind(name.as_str()).execute(pool);
        self.patiently(write).await.map(drop)
    }

    async fn take(&self, request: &Request, version: i64) -> Result<Option<FencingToken>, Error> {
        self.grant(&self.sql.take, request, Some(version)).await
    }

    async fn extend(&self, request: &Request) -> Result<bool, Error> {
        let grant = Grant::new(request, FencingToken::ZERO);
        Ok(self.renew(&[&grant]).await?.first() == Some(&true))
    }

    async fn look(&self, name: &LockName) -> Result<Option<Row>, Error> {
        let pool = self.ready().await?;
        let read = || sqlx::query(self.sql.look.clone()).bind(name.as_str()).fetch_all(pool);
        self.again(read).await?.first().map(Self::row).transpose()
    }

    async fn is_free(&self, name: &LockName) -> Result<bool, Error> {
        let pool = self.ready().await?;
        let read = || {
            sqlx::query_scalar::<_, bool>(self.sql.free.clone()).bind(name.as_str()).fetch_all(pool)
        };
        Ok(self.again(read).await?.first() == Some(&true))
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.ready().await?;
        let remaining = match self.number(&self.sql.quarantine).await? {
            Some(remaining) => remaining,
            None => {
                self.execute(&self.sql.mark).await?;
                self.number(&self.sql.quarantine).await?.unwrap_or(1)
            }
        };
        let why = "the server has crashed, was promoted or was restored, and may have lost locks";
        Ok((remaining > 0).then(|| Quarantined { remaining: span(remaining), why: why.into() }))
    }

    async fn renew(&self, grants: &[&Grant]) -> Result<Vec<bool>, Error> {
        let pool = self.ready().await?;
        let names: Vec<_> = grants.iter().map(|grant| grant.name.as_str()).collect();
        let owners: Vec<_> = grants.iter().map(|grant| grant.owner.to_string()).collect();
        let leases: Vec<_> = grants.iter().map(|grant| micros(grant.lease)).collect();
        let write = || {
            let query = sqlx::query_scalar::<_, String>(self.sql.renew.clone());
            query.bind(&names).bind(&owners).bind(&leases).fetch_all(pool)
        };
        let there: HashSet<String> = self.again(write).await?.into_iter().collect();
        Ok(owners.iter().map(|owner| there.contains(owner)).collect())
    }

    async fn release(&self, grant: &Grant, keep: Option<Duration>) -> Result<Option<i64>, Error> {
        match keep {
            Some(keep) => self.change(&self.sql.keep, grant, Some(micros(keep))).await,
            None => self.change(&self.sql.release, grant, None).await,
        }
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let pool = self.ready().await?;
        let owner = request.owner.to_string();
        let bury = || sqlx::query(self.sql.abandon.clone()).bind(&owner).execute(pool);
        self.again(bury).await?;
        let chase = || {
            let query = sqlx::query(self.sql.chase.clone());
            query.bind(request.name.as_str()).bind(&owner).execute(pool)
        };
        self.again(chase).await.map(drop)
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<bool, Error> {
        let token = token.get().cast_signed();
        Ok(self.change(&self.sql.raise, grant, Some(token)).await?.is_some())
    }

    async fn force(&self, name: &LockName) -> Result<bool, Error> {
        let pool = self.ready().await?;
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(self.sql.force.clone());
            query.bind(name.as_str()).fetch_all(pool)
        };
        Ok(!self.patiently(write).await?.is_empty())
    }

    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Row>, Error> {
        let pool = self.ready().await?;
        let read = || {
            let query = sqlx::query(self.sql.list.clone());
            query.bind(after).bind(i64::from(limit)).fetch_all(pool)
        };
        self.again(read).await?.iter().map(Self::row).collect()
    }

    async fn sweep(&self, rows: bool) -> Result<(), Error> {
        self.ready().await?;
        if rows {
            // In this order: what is deleted was below the watermark before this raise.
            self.execute(&self.sql.sweep).await?;
            self.execute(&self.sql.raise_watermark).await?;
        }
        self.execute(&self.sql.forget).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        if init.quarantine == Some(false) {
            let message = "the quarantine of this store cannot be turned off; allowed is on";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if let Some(longest) = init.longest_lease {
            check_longest(longest, PostgresBuilder::SHORTEST_LEASE)?;
        }
        if !self.is_there().await? {
            let longest =
                init.longest_lease.unwrap_or_else(|| self.settings.longest_lease_of_new());
            let schema: Arc<str> = statements::schema(&self.tables, micros(longest)).into();
            let make = || async {
                sqlx::raw_sql(AssertSqlSafe(Arc::clone(&schema))).execute(&self.pool).await
            };
            self.patiently(make).await?;
        } else if let Some(longest) = init.longest_lease {
            let query = || {
                let query = sqlx::query(self.sql.set_longest_lease.clone());
                query.bind(micros(longest)).execute(&self.pool)
            };
            self.patiently(query).await?;
        }
        let longest = self.longest_lease().await?;
        self.set_promises(longest);
        if init.first_use {
            self.execute(&self.sql.open_at_once).await?;
        }
        let mut settings = StoreSettings::new(longest, Some(true));
        settings.grants_in =
            self.quarantine().await?.map_or(Duration::ZERO, |held_back| held_back.remaining);
        Ok(settings)
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        let before = SystemEnv.wall_micros();
        let Some(server) = self.number(&self.sql.clock).await? else { return Ok(None) };
        let middle = before.midpoint(SystemEnv.wall_micros());
        Ok(Some(server - middle.cast_signed()))
    }

    async fn close(&self) {
        if !self.given {
            self.pool.close().await;
        }
    }
}
