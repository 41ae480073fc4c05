//! PostgreSQL's side of the seam.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Guarantees, Init, LockName, Quarantined, Request,
    StoreSettings, Turn,
};
use sqlx::{Row as _, SqlStr, postgres::PgRow};
use tokio::sync::{OnceCell, watch};

use super::{
    arg::Arg::{self, MaybeNumber, Number, Span, Spans, Text, Texts},
    listen::Listening,
    places::{Crowded, Places, Waited},
    promises::{Terms, promises},
    server::{Server, first},
    turn::Queued,
};
use crate::{
    dialect::{Dialect, Handed, Left, Row, token_of},
    error::general,
    gate::Gate,
    reach::span,
    settings::{Settings, agree},
};

#[derive(Debug)]
pub(super) struct Postgres {
    pub(super) server: Arc<Server>,
    pub(super) settings: Settings,
    listens: bool,
    places: Arc<Places>,
    pub(super) waited: Waited,
    pub(super) crowded: Crowded,
    listening: OnceCell<Listening>,
    promised: Mutex<(Terms, Arc<Guarantees>)>,
    agreed: OnceCell<()>,
}

impl Postgres {
    /// How long what is free waits for the first place.
    pub(super) const TURN: Duration = Duration::from_secs(1);
    /// A place that was not heard of for this long is gone: it asks every half second.
    pub(super) const PLACE_LIFE: Duration = Duration::from_secs(3);

    pub(super) async fn new(
        server: Server,
        settings: Settings,
        listens: bool,
    ) -> Result<Self, Error> {
        let longest_lease = settings.longest_lease_of_new();
        let (longest_ever, link) = (Duration::ZERO, settings.link);
        let terms = Terms { longest_lease, longest_ever, quarantined: true, push: false, link };
        let this = Self {
            server: Arc::new(server),
            settings,
            listens,
            places: Arc::new(Places::new()),
            waited: Waited::default(),
            crowded: Crowded::default(),
            listening: OnceCell::new(),
            promised: Mutex::new((terms, Arc::new(promises(terms)))),
            agreed: OnceCell::new(),
        };
        if this.is_there().await? {
            this.ready().await?;
        }
        this.listening().await;
        Ok(this)
    }

    async fn listening(&self) -> &Listening {
        let start = || async {
            if !self.listens {
                return Listening::off();
            }
            Listening::start(&self.server, &self.places).await
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
    async fn ready(&self) -> Result<(), Error> {
        let settle = || async {
            let (longest, _) = self.learn().await?;
            agree(self.settings.longest_lease, longest)
        };
        self.agreed.get_or_try_init(settle).await.copied()
    }

    pub(super) fn set_promises(
        &self,
        longest_lease: Duration,
        longest_ever: Duration,
        quarantined: bool,
    ) {
        let (push, link) = (*self.told().borrow(), self.settings.link);
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let longest_ever = longest_ever.max(promised.0.longest_ever);
        let terms = Terms { longest_lease, longest_ever, quarantined, push, link };
        *promised = (terms, Arc::new(promises(terms)));
    }

    fn longest_ever(&self) -> Duration {
        self.promised.lock().unwrap_or_else(PoisonError::into_inner).0.longest_ever
    }

    /// Runs a statement of a store that is ready.
    pub(super) async fn once(
        &self,
        statement: &SqlStr,
        args: &[Arg<'_>],
    ) -> Result<Vec<PgRow>, Error> {
        self.ready().await?;
        self.server.once(statement, args).await
    }

    /// The same for a statement that may be carried out twice.
    pub(super) async fn again(
        &self,
        statement: &SqlStr,
        args: &[Arg<'_>],
    ) -> Result<Vec<PgRow>, Error> {
        self.ready().await?;
        self.server.again(statement, args).await
    }

    /// A statement that takes a lock and tells the token. `last` is its argument besides the request.
    async fn grant(
        &self,
        statement: &SqlStr,
        request: &Request,
        last: Option<Arg<'_>>,
    ) -> Result<Option<FencingToken>, Error> {
        let owner = request.owner.to_string();
        let [name, owner, label, lease, floor] = wanted(request, &owner);
        let args = [name, owner, label, lease, floor, last.unwrap_or(Number(0))];
        let args = if last.is_some() { &args[..] } else { &args[..5] };
        first(&self.again(statement, args).await?)?.map(token_of).transpose()
    }

    /// What is known of a name. A request with a place asks for it, and so does one that finds it free, where those
    /// who go first may be gone.
    async fn look_or_ask(&self, request: &Request) -> Result<Option<Row>, Error> {
        let place = self.places.of(request.owner);
        if place.is_none() {
            let row = self.look(&request.name).await?;
            if row.as_ref().is_none_or(|row| row.is_held() || !row.is_taken()) {
                return Ok(row);
            }
        }
        match self.ask(request, place.as_deref()).await? {
            Some(row) => Ok(Some(row)),
            None => self.look(&request.name).await,
        }
    }
}

/// The first arguments of every statement that grants.
pub(super) fn wanted<'a>(request: &'a Request, owner: &'a str) -> [Arg<'a>; 5] {
    [
        Text(request.name.as_str()),
        Text(owner),
        Text(request.label.as_str()),
        Span(request.lease),
        Number(request.floor.get().cast_signed() + 1),
    ]
}

#[async_trait]
impl Dialect for Postgres {
    const KIND: &'static str = "postgres";

    fn gate(&self) -> Option<&Gate> {
        Some(&self.server.gate)
    }

    fn timeout(&self) -> Duration {
        self.server.timeout
    }

    async fn identity(&self) -> Result<String, Error> {
        let rows = self.again(&self.server.sql.identity, &[]).await?;
        let missing = || Error::new(ErrorKind::Config, "the server shows no system identifier");
        first(&rows)?.ok_or_else(missing)
    }

    async fn agree_once(&self) -> Result<(), Error> {
        self.ready().await
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        let push = *self.told().borrow();
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        if promised.0.push != push {
            let terms = Terms { push, ..promised.0 };
            *promised = (terms, Arc::new(promises(terms)));
        }
        Arc::clone(&promised.1)
    }

    fn broken(&self) -> u64 {
        self.server.patience.broken()
    }

    async fn insert(&self, request: &Request) -> Result<Option<FencingToken>, Error> {
        self.grant(&self.server.sql.insert, request, None).await
    }

    async fn create(&self, name: &LockName) -> Result<(), Error> {
        self.once(&self.server.sql.create, &[Text(name.as_str())]).await.map(drop)
    }

    async fn take(&self, request: &Request, version: i64) -> Result<Option<FencingToken>, Error> {
        self.grant(&self.server.sql.take, request, Some(Number(version))).await
    }

    async fn retake(
        &self,
        request: &Request,
        version: Option<i64>,
    ) -> Result<Option<FencingToken>, Error> {
        self.grant(&self.server.sql.retake, request, Some(MaybeNumber(version))).await
    }

    async fn look(&self, name: &LockName) -> Result<Option<Row>, Error> {
        let rows = self.again(&self.server.sql.look, &[Text(name.as_str())]).await?;
        rows.first().map(|row| Self::row(row, None)).transpose()
    }

    fn looks_first(&self, request: &Request) -> bool {
        self.crowded.has(&request.name) || self.places.of(request.owner).is_some()
    }

    async fn look_to_take(&self, request: &Request) -> Result<Option<Row>, Error> {
        let row = self.look_or_ask(request).await?;
        let others = |row: &Row| if row.granted { row.waiting > Some(0) } else { row.is_taken() };
        self.crowded.note(&request.name, row.as_ref().is_some_and(others));
        Ok(row)
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
                server.once(&sql.mark, &[Span(self.longest_ever())]).await?;
                server.number(&sql.quarantine).await?.unwrap_or(1)
            }
        };
        let why = "the server has crashed, was promoted or was restored, and may have lost locks";
        Ok((remaining > 0).then(|| Quarantined { remaining: span(remaining), why: why.into() }))
    }

    async fn renew(&self, grants: &[&Grant]) -> Result<Vec<bool>, Error> {
        let names: Vec<_> = grants.iter().map(|grant| grant.name.as_str()).collect();
        let owners: Vec<_> = grants.iter().map(|grant| grant.owner.to_string()).collect();
        let owners: Vec<_> = owners.iter().map(String::as_str).collect();
        let leases: Vec<_> = grants.iter().map(|grant| grant.lease).collect();
        let args = [Texts(&names), Texts(&owners), Spans(&leases)];
        let rows = self.again(&self.server.sql.renew, &args).await?;
        let there = rows.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<&str>, _>>();
        let there = there.map_err(general)?;
        Ok(owners.iter().map(|owner| there.contains(owner)).collect())
    }

    async fn renew_one(&self, grant: &Grant) -> Result<bool, Error> {
        let owner = grant.owner.to_string();
        let args = [Text(grant.name.as_str()), Text(&owner), Span(grant.lease)];
        Ok(!self.again(&self.server.sql.renew_one, &args).await?.is_empty())
    }

    async fn release(&self, grant: &Grant, keep: Option<Duration>) -> Result<Left, Error> {
        let owner = grant.owner.to_string();
        let whose = [Text(grant.name.as_str()), Text(&owner)];
        let sql = &self.server.sql;
        if let Some(keep) = keep {
            let args = [whose[0], whose[1], Span(keep)];
            return Ok(first(&self.once(&sql.keep, &args).await?)?.into());
        }
        // Where somebody waited a moment ago, somebody may wait now.
        if !self.waited.forget(grant.owner)
            && let Some(version) = first(&self.once(&sql.release, &whose).await?)?
        {
            return Ok(Left::Free(version));
        }
        if self.pass(grant, None).await?.is_some() {
            return Ok(Left::Taken);
        }
        Ok(first(&self.once(&sql.release_and_tell, &whose).await?)?.into())
    }

    async fn hand_on(
        self: Arc<Self>,
        grant: &Grant,
        next: &Request,
    ) -> Result<Option<Handed>, Error> {
        let (owner, next_owner) = (grant.owner.to_string(), next.owner.to_string());
        // Where somebody waited a moment ago, somebody may wait now.
        if !self.waited.has(grant.owner) {
            let args = [
                Text(grant.name.as_str()),
                Text(&owner),
                Text(&next_owner),
                Text(next.label.as_str()),
                Span(next.lease),
                Number(next.floor.get().cast_signed() + 1),
            ];
            let rows = self.once(&self.server.sql.hand_on, &args).await?;
            if let Some(token) = first(&rows)? {
                return Ok(Some(Handed::Granted(token_of(token)?)));
            }
        }
        let turn = Queued::new(Arc::clone(&self), next);
        let place = turn.place();
        let Some(token) = self.pass(grant, Some(&place)).await? else { return Ok(None) };
        self.waited.forget(grant.owner);
        place.queued.store(true, Ordering::Relaxed);
        Ok(Some(Handed::Queued(token, Box::new(turn))))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let owner = request.owner.to_string();
        let args = [Text(request.name.as_str()), Text(&owner)];
        self.again(&self.server.sql.abandon, &args).await.map(drop)
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<bool, Error> {
        let owner = grant.owner.to_string();
        let token = Number(token.get().cast_signed());
        let args = [Text(grant.name.as_str()), Text(&owner), token];
        Ok(!self.once(&self.server.sql.raise, &args).await?.is_empty())
    }

    async fn force(&self, name: &LockName) -> Result<bool, Error> {
        Ok(!self.once(&self.server.sql.force, &[Text(name.as_str())]).await?.is_empty())
    }

    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Row>, Error> {
        let rows = self.again(&self.server.sql.list, &[Text(after), Number(limit.into())]).await?;
        rows.iter().map(|row| Self::row(row, None)).collect()
    }

    async fn sweep(&self, rows: bool) -> Result<(), Error> {
        if rows {
            // In this order: what is deleted was below the watermark before this raise.
            self.once(&self.server.sql.sweep, &[]).await?;
            self.once(&self.server.sql.raise_watermark, &[]).await?;
        }
        Ok(())
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.settle(init).await
    }

    async fn clock_micros(&self) -> Result<Option<i64>, Error> {
        self.server.number(&self.server.sql.clock).await
    }

    async fn close(&self) {
        if let Some(listening) = self.listening.get() {
            listening.stop();
        }
        self.server.close().await;
    }
}
