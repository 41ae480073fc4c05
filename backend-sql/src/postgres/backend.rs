//! PostgreSQL's side of the seam.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Env as _, Error, FencingToken, Grant, Guarantees, Init, LockName, Quarantined, Request,
    StoreSettings, SystemEnv, Turn,
};
use sqlx::{PgPool, Row as _, SqlStr, postgres::PgRow};
use tokio::sync::{OnceCell, watch};

use super::{
    listen::Listening,
    places::{Place, Places},
    promises::{Terms, promises},
    server::{Server, interval, span},
    turn::Queued,
};
use crate::{
    dialect::{Dialect, Handed, Row, token_of},
    error::general,
    settings::{Settings, agree},
};

#[derive(Debug)]
pub(super) struct Postgres {
    pub(super) server: Server,
    pub(super) settings: Settings,
    listens: bool,
    places: Arc<Places>,
    listening: OnceCell<Listening>,
    promised: Mutex<(Terms, Arc<Guarantees>)>,
    agreed: OnceCell<()>,
}

impl Postgres {
    /// How long what is free waits for the first place.
    pub(super) const TURN: Duration = Duration::from_secs(1);
    /// A place that was not heard of for this long is gone: it asks every half second.
    const PLACE_LIFE: Duration = Duration::from_secs(3);

    pub(super) async fn new(
        server: Server,
        settings: Settings,
        listens: bool,
    ) -> Result<Self, Error> {
        let longest_lease = settings.longest_lease_of_new();
        let terms = Terms { longest_lease, quarantined: true, push: false };
        let this = Self {
            server,
            settings,
            listens,
            places: Arc::new(Places::new()),
            listening: OnceCell::new(),
            promised: Mutex::new((terms, Arc::new(promises(terms)))),
            agreed: OnceCell::new(),
        };
        this.listening().await;
        if this.is_there().await? {
            this.ready().await?;
        }
        Ok(this)
    }

    async fn listening(&self) -> &Listening {
        let start = || async {
            if !self.listens {
                return Listening::off();
            }
            let notify = self.server.sql.notify.clone();
            Listening::start(&self.server.pool, notify, &self.places).await
        };
        self.listening.get_or_init(start).await
    }

    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// Whether this client is told when it is its turn, and when that changes.
    pub(super) fn told(&self) -> watch::Receiver<bool> {
        self.listening.get().map_or_else(|| watch::channel(false).1, Listening::heard)
    }

    /// Takes the store's settings over, once, or refuses the store if they are not what we were told.
    async fn ready(&self) -> Result<&PgPool, Error> {
        let settle = || async {
            let (longest, quarantined) = self.stored().await?;
            agree(self.settings.longest_lease, longest)?;
            self.set_promises(longest, quarantined);
            Ok::<_, Error>(())
        };
        self.agreed.get_or_try_init(settle).await?;
        Ok(&self.server.pool)
    }

    pub(super) fn set_promises(&self, longest_lease: Duration, quarantined: bool) {
        let terms = Terms { longest_lease, quarantined, push: *self.told().borrow() };
        *self.promised.lock().unwrap_or_else(PoisonError::into_inner) =
            (terms, Arc::new(promises(terms)));
    }

    /// A statement that changes one owner's live grant and tells its version.
    async fn change(&self, statement: &SqlStr, grant: &Grant) -> Result<Option<i64>, Error> {
        let pool = self.ready().await?;
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(statement.clone());
            query.bind(grant.name.as_str()).bind(grant.owner.to_string()).fetch_all(pool)
        };
        Ok(self.server.patiently(write).await?.pop())
    }

    /// A statement that takes a lock and tells the token.
    async fn grant(
        &self,
        statement: &SqlStr,
        request: &Request,
        version: Option<i64>,
        place: Option<&Place>,
    ) -> Result<Option<FencingToken>, Error> {
        let pool = self.ready().await?;
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(statement.clone())
                .bind(request.name.as_str())
                .bind(request.owner.to_string())
                .bind(request.label.as_str())
                .bind(interval(request.lease))
                .bind(request.floor.get().cast_signed() + 1);
            let query = match (version, place) {
                (Some(version), _) => query.bind(version),
                (None, Some(place)) => query.bind(&place.id),
                (None, None) => query,
            };
            query.fetch_all(pool)
        };
        self.server.again(write).await?.pop().map(token_of).transpose()
    }

    /// Takes what is free for a place that is in the queue; `None` for a request that is not.
    async fn claim(&self, request: &Request) -> Option<Result<Option<FencingToken>, Error>> {
        let place = self.places.of(request.owner)?;
        if !place.queued.load(Ordering::Relaxed) {
            return None;
        }
        Some(self.grant(&self.server.sql.claim, request, None, Some(&place)).await)
    }

    /// Looks after the queue of a name, and tells that a place of ours in it lives. `None` if the
    /// name is free and nobody waits for it.
    async fn ask(&self, name: &LockName, place: Option<&Place>) -> Result<Option<Row>, Error> {
        let pool = self.ready().await?;
        let place = place.map(|place| place.id.as_str());
        let write = || {
            let query = sqlx::query(self.server.sql.ask.clone()).bind(name.as_str()).bind(place);
            query.bind(interval(Self::TURN)).bind(interval(Self::PLACE_LIFE)).fetch_all(pool)
        };
        let rows = self.server.again(write).await?;
        rows.first().map(|row| Self::row(row, place)).transpose()
    }

    /// Whether it is the turn of the place with this id.
    pub(super) async fn is_turn(&self, name: &LockName, id: &str) -> Result<bool, Error> {
        let pool = self.ready().await?;
        let read = || {
            let query = sqlx::query_scalar::<_, bool>(self.server.sql.free.clone());
            query.bind(name.as_str()).bind(id).fetch_all(pool)
        };
        Ok(self.server.again(read).await?.first() == Some(&true))
    }

    /// Gives up the place with this id, and what it was granted.
    pub(super) async fn leave(&self, request: &Request, id: &str) -> Result<(), Error> {
        let pool = self.ready().await?;
        let owner = request.owner.to_string();
        let write = || {
            let query = sqlx::query(self.server.sql.leave.clone()).bind(request.name.as_str());
            query.bind(&owner).bind(id).fetch_all(pool)
        };
        self.server.again(write).await.map(drop).map_err(|error| error.at(Self::KIND, "leave"))
    }

    /// A row as somebody sees it who has this place, if any, in its queue.
    fn row(row: &PgRow, place: Option<&str>) -> Result<Row, Error> {
        Self::read(row, place).map_err(general)?
    }

    fn read(row: &PgRow, place: Option<&str>) -> Result<Result<Row, Error>, sqlx::Error> {
        let read = Row::read(
            row.try_get("name")?,
            row.try_get("owner")?,
            row.try_get("label")?,
            row.try_get("token")?,
            row.try_get("version")?,
            span(row.try_get("remaining")?),
        );
        let waiting: Option<i32> = row.try_get("waiting")?;
        let first: Option<&str> = row.try_get("first")?;
        let turn = span(row.try_get("turn")?);
        Ok(read.map(|mut read| {
            read.waiting = Some(waiting.unwrap_or(0).unsigned_abs().into());
            if first.is_some() && first != place {
                read.others_first = turn.max(Duration::from_millis(1));
            }
            read
        }))
    }
}

#[async_trait]
impl Dialect for Postgres {
    const KIND: &'static str = "postgres";

    fn guarantees(&self) -> Arc<Guarantees> {
        let push = *self.told().borrow();
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        if promised.0.push != push {
            let terms = Terms { push, ..promised.0 };
            *promised = (terms, Arc::new(promises(terms)));
        }
        Arc::clone(&promised.1)
    }

    fn highest_floor(&self) -> FencingToken {
        let ahead = self.guarantees().longest_lease.as_micros() as u64;
        FencingToken::new(SystemEnv.wall_micros() + ahead).unwrap_or(FencingToken::MAX)
    }

    async fn insert(&self, request: &Request) -> Result<Option<FencingToken>, Error> {
        match self.claim(request).await {
            Some(claimed) => claimed,
            None => self.grant(&self.server.sql.insert, request, None, None).await,
        }
    }

    async fn create(&self, name: &LockName) -> Result<(), Error> {
        let pool = self.ready().await?;
        let write =
            || sqlx::query(self.server.sql.create.clone()).bind(name.as_str()).execute(pool);
        self.server.patiently(write).await.map(drop)
    }

    async fn take(&self, request: &Request, version: i64) -> Result<Option<FencingToken>, Error> {
        match self.claim(request).await {
            Some(claimed) => claimed,
            None => self.grant(&self.server.sql.take, request, Some(version), None).await,
        }
    }

    async fn extend(&self, request: &Request) -> Result<bool, Error> {
        let grant = Grant::new(request, FencingToken::ZERO);
        Ok(self.renew(&[&grant]).await?.first() == Some(&true))
    }

    async fn look(&self, name: &LockName) -> Result<Option<Row>, Error> {
        let pool = self.ready().await?;
        let read = || sqlx::query(self.server.sql.look.clone()).bind(name.as_str()).fetch_all(pool);
        let rows = self.server.again(read).await?;
        rows.first().map(|row| Self::row(row, None)).transpose()
    }

    async fn look_to_take(&self, request: &Request) -> Result<Option<Row>, Error> {
        if let Some(place) = self.places.of(request.owner) {
            let row = self.ask(&request.name, Some(&place)).await?;
            place.queued.store(row.is_some(), Ordering::Relaxed);
            return match row {
                Some(row) => Ok(Some(row)),
                None => self.look(&request.name).await,
            };
        }
        match self.look(&request.name).await? {
            Some(row) if !row.is_held() && row.is_taken() => {
                Ok(self.ask(&request.name, None).await?.or(Some(row.nobody_first())))
            }
            row => Ok(row),
        }
    }

    async fn is_free(&self, name: &LockName) -> Result<bool, Error> {
        self.is_turn(name, "").await
    }

    fn place(self: Arc<Self>, request: &Request) -> Option<Box<dyn Turn>> {
        Some(Box::new(Queued::new(self, request)))
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.ready().await?;
        let (server, sql) = (&self.server, &self.server.sql);
        let remaining = match server.number(&sql.quarantine).await? {
            Some(remaining) => remaining,
            None => {
                server.execute(&sql.mark).await?;
                server.number(&sql.quarantine).await?.unwrap_or(1)
            }
        };
        let why = "the server has crashed, was promoted or was restored, and may have lost locks";
        Ok((remaining > 0).then(|| Quarantined { remaining: span(remaining), why: why.into() }))
    }

    async fn renew(&self, grants: &[&Grant]) -> Result<Vec<bool>, Error> {
        let pool = self.ready().await?;
        let names: Vec<_> = grants.iter().map(|grant| grant.name.as_str()).collect();
        let owners: Vec<_> = grants.iter().map(|grant| grant.owner.to_string()).collect();
        let leases: Vec<_> = grants.iter().map(|grant| interval(grant.lease)).collect();
        let write = || {
            let query = sqlx::query_scalar::<_, String>(self.server.sql.renew.clone());
            query.bind(&names).bind(&owners).bind(&leases).fetch_all(pool)
        };
        let there: HashSet<String> = self.server.again(write).await?.into_iter().collect();
        Ok(owners.iter().map(|owner| there.contains(owner)).collect())
    }

    async fn release(&self, grant: &Grant, keep: Option<Duration>) -> Result<Option<i64>, Error> {
        let Some(keep) = keep else {
            return self.change(&self.server.sql.release, grant).await;
        };
        let pool = self.ready().await?;
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(self.server.sql.keep.clone());
            let query = query.bind(grant.name.as_str()).bind(grant.owner.to_string());
            query.bind(interval(keep)).fetch_all(pool)
        };
        Ok(self.server.patiently(write).await?.pop())
    }

    async fn hand_on(
        self: Arc<Self>,
        grant: &Grant,
        next: &Request,
    ) -> Result<Option<Handed>, Error> {
        let pool = self.ready().await?;
        let turn = Queued::new(Arc::clone(&self), next);
        let place = turn.place();
        let write = || {
            sqlx::query(self.server.sql.hand_on.clone())
                .bind(grant.name.as_str())
                .bind(grant.owner.to_string())
                .bind(next.owner.to_string())
                .bind(next.label.as_str())
                .bind(interval(next.lease))
                .bind(next.floor.get().cast_signed() + 1)
                .bind(&place.id)
                .fetch_all(pool)
        };
        let rows = self.server.patiently(write).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        place.queued.store(true, Ordering::Relaxed);
        let row = Self::row(row, Some(&place.id))?;
        Ok(Some(Handed { row, turn: Box::new(turn) }))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let pool = self.ready().await?;
        let owner = request.owner.to_string();
        let bury = || {
            let query = sqlx::query(self.server.sql.abandon.clone());
            query.bind(request.name.as_str()).bind(&owner).fetch_all(pool)
        };
        self.server.again(bury).await.map(drop)
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<bool, Error> {
        let pool = self.ready().await?;
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(self.server.sql.raise.clone());
            let query = query.bind(grant.name.as_str()).bind(grant.owner.to_string());
            query.bind(token.get().cast_signed()).fetch_all(pool)
        };
        Ok(self.server.patiently(write).await?.pop().is_some())
    }

    async fn force(&self, name: &LockName) -> Result<bool, Error> {
        let pool = self.ready().await?;
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(self.server.sql.force.clone());
            query.bind(name.as_str()).fetch_all(pool)
        };
        Ok(!self.server.patiently(write).await?.is_empty())
    }

    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Row>, Error> {
        let pool = self.ready().await?;
        let read = || {
            let query = sqlx::query(self.server.sql.list.clone());
            query.bind(after).bind(i64::from(limit)).fetch_all(pool)
        };
        let rows = self.server.again(read).await?;
        rows.iter().map(|row| Self::row(row, None)).collect()
    }

    async fn sweep(&self, rows: bool) -> Result<(), Error> {
        self.ready().await?;
        if rows {
            // In this order: what is deleted was below the watermark before this raise.
            self.server.execute(&self.server.sql.sweep).await?;
            self.server.execute(&self.server.sql.raise_watermark).await?;
        }
        Ok(())
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.settle(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        let before = SystemEnv.wall_micros();
        let Some(server) = self.server.number(&self.server.sql.clock).await? else {
            return Ok(None);
        };
        let middle = before.midpoint(SystemEnv.wall_micros());
        Ok(Some(server - middle.cast_signed()))
    }

    async fn close(&self) {
        self.server.close().await;
    }
}
