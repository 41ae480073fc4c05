//! The trait `Dialect` for PostgreSQL.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Guarantees, Init, LockName, Mode, OwnerId, Quarantined,
    Request, StoreSettings, Waiter,
};
use sqlx::{Row as _, SqlStr, postgres::PgRow};

use super::{queue::wanted, waiter::QueueWaiter};
use crate::{
    dialect::{Dialect, Handed, Left, Listed, Row},
    error::{general, token_of},
    gate::{self, Gate},
    postgres::{
        connection::{
            arg::Arg::{self, MaybeNumber, MaybeText, Number, Span, Spans, Text, Texts},
            health::Health,
            server::Server,
            sessions::first,
        },
        guarantees::{Terms, guarantees},
        statements::check_version,
        store::Postgres,
    },
    servers::times::span,
    tunables::postgres::{FAR_POLL, SWEEPS, SWEPT},
};

impl Postgres {
    /// Runs a statement that takes a lock and answers the token. `last` is its argument after those
    /// of the request.
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
        first(&self.run_repeatable(statement, args).await?)?.map(token_of).transpose()
    }

    /// Renews grants of one mode. Returns the owners that were renewed, and for how long.
    async fn renew_batch(
        &self,
        statement: &SqlStr,
        grants: &[&Grant],
    ) -> Result<HashMap<String, Duration>, Error> {
        let names: Vec<_> = grants.iter().map(|grant| grant.name.as_str()).collect();
        let owners: Vec<_> = grants.iter().map(|grant| grant.owner.to_string()).collect();
        let owners: Vec<_> = owners.iter().map(String::as_str).collect();
        let leases: Vec<_> = grants.iter().map(|grant| grant.lease).collect();
        let rows = self
            .run_repeatable(statement, &[Texts(&names), Texts(&owners), Spans(&leases)])
            .await?;
        let set = |row: &PgRow| Ok((row.try_get(0)?, span(row.try_get(1)?)));
        let set: Result<_, sqlx::Error> = rows.iter().map(set).collect();
        set.map_err(general)
    }

    /// Reads the row of a name. A request with an entry attempts to take the lock, unless its entry
    /// has only to wait. A request without an entry does so if the lock is free but others come
    /// first, since these may be gone.
    async fn read_or_attempt(&self, request: &Request) -> Result<Option<Row>, Error> {
        let entry = self.entries.of(request.owner);
        match &entry {
            None => {
                let row = self.read_row(&request.name, Some(request.owner)).await?;
                if row.as_ref().is_none_or(|row| row.is_held() || !row.is_taken()) {
                    return Ok(row);
                }
            }
            Some(entry) => {
                if let Some(row) = self.heartbeat(request, entry).await? {
                    return Ok(Some(row));
                }
            }
        }
        if let Some(row) = self.attempt_or_enqueue(request, entry.as_deref()).await? {
            return Ok(Some(row));
        }
        let seen = self.read_row(&request.name, Some(request.owner)).await?;
        if entry.is_none() || seen.as_ref().is_none_or(|row| !row.refuses(request)) {
            return Ok(seen);
        }
        // Another client has made the row meanwhile. Without this, the entry would enter the queue
        // only at its next poll. An abandoned owner is refused once more.
        Ok(self.attempt_or_enqueue(request, entry.as_deref()).await?.or(seen))
    }
}

/// A quarantine that lasts for so many microseconds.
fn quarantined(remaining: i64) -> Option<Quarantined> {
    let why = "the server has crashed, was promoted or was restored, and may have lost locks, or its \
               tokens were set back";
    (remaining > 0).then(|| Quarantined::new(span(remaining), why))
}

#[async_trait]
impl Dialect for Postgres {
    const KIND: &'static str = "postgres";
    const SHARES: bool = true;
    const FAR_POLL: Duration = FAR_POLL;

    fn gate(&self) -> Option<&Gate> {
        Some(&self.server.gate)
    }

    fn timeout(&self) -> Duration {
        self.server.timeout
    }

    async fn identity(&self) -> Result<String, Error> {
        let rows = self.run_repeatable(&self.server.sql.identity, &[]).await?;
        let missing = || Error::new(ErrorKind::Config, "the server shows no system identifier");
        first(&rows)?.ok_or_else(missing)
    }

    async fn agree_once(&self) -> Result<(), Error> {
        self.ready().await
    }

    async fn check_version(&self) -> Result<(), Error> {
        check_version(self.version().await?)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        let push = self.delivery().borrow().works;
        let mut promised = self.promised.lock();
        if promised.0.push != push {
            let terms = Terms { push, ..promised.0 };
            *promised = (terms, Arc::new(guarantees(terms)));
        }
        Arc::clone(&promised.1)
    }

    fn broken(&self) -> u64 {
        self.server.broken()
    }

    async fn insert(&self, request: &Request) -> Result<Option<FencingToken>, Error> {
        let statement = match request.mode {
            Mode::Shared => &self.server.sql.join,
            _ => &self.server.sql.insert,
        };
        self.grant(statement, request, None).await
    }

    async fn create_row(&self, name: &LockName) -> Result<(), Error> {
        self.run_once(&self.server.sql.create_row, &[Text(name.as_str())]).await.map(drop)
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

    async fn read_row(
        &self,
        name: &LockName,
        owner: Option<OwnerId>,
    ) -> Result<Option<Row>, Error> {
        let reader = owner.map(|owner| owner.to_string());
        let args = [Text(name.as_str()), MaybeText(reader.as_deref())];
        let rows = self.run_repeatable(&self.server.sql.read_row, &args).await?;
        let Some(found) = rows.first() else { return Ok(None) };
        let mut row = Self::shown(found)?;
        if found.try_get("mine").map_err(general)? {
            row.owner = owner;
        }
        Ok(Some(row))
    }

    fn reads_first(&self, request: &Request) -> bool {
        self.crowded.contains(&request.name) || self.entries.of(request.owner).is_some()
    }

    fn was_busy(&self, name: &LockName) -> bool {
        self.crowded.contains(name)
    }

    async fn read_to_take(&self, request: &Request) -> Result<Option<Row>, Error> {
        let row = self.read_or_attempt(request).await?;
        let others =
            |row: &Row| if row.granted { row.waiting > Some(0) } else { row.refuses(request) };
        if row.as_ref().is_some_and(others) {
            self.crowded.insert(&request.name);
        } else {
            self.crowded.remove(&request.name);
        }
        Ok(row)
    }

    fn waiter(self: Arc<Self>, request: &Request) -> Box<dyn Waiter> {
        Box::new(QueueWaiter::new(self, request))
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.ready().await?;
        // The tables may be stored in another way than when this client connected.
        self.existing_tables().await?;
        let (server, sql) = (&self.server, &self.server.sql);
        let remaining = match server.number(&sql.quarantine).await? {
            Some(remaining) => remaining,
            None => {
                server.run_once(&sql.make_marker, &[Span(self.longest_ever())]).await?;
                server.number(&sql.quarantine).await?.unwrap_or(1)
            }
        };
        Ok(quarantined(remaining))
    }

    async fn running_quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.ready().await?;
        let remaining = self.server.number(&self.server.sql.quarantine).await?;
        Ok(remaining.and_then(quarantined))
    }

    async fn renew(&self, grants: &[&Grant]) -> Result<Vec<Option<Duration>>, Error> {
        let (readers, writers): (Vec<&Grant>, Vec<&Grant>) =
            grants.iter().partition(|grant| grant.mode == Mode::Shared);
        let mut set = HashMap::new();
        let sql = &self.server.sql;
        for (statement, batch) in [(&sql.renew, writers), (&sql.renew_readers, readers)] {
            if !batch.is_empty() {
                set.extend(self.renew_batch(statement, &batch).await?);
            }
        }
        Ok(grants.iter().map(|grant| set.get(&grant.owner.to_string()).copied()).collect())
    }

    async fn part(&self, grant: &Grant) -> Result<bool, Error> {
        let owner = grant.owner.to_string();
        let whose = [Text(grant.name.as_str()), Text(&owner)];
        Ok(first(&self.run_once(&self.server.sql.part, &whose).await?)? == Some(true))
    }

    async fn renew_one(&self, grant: &Grant) -> Result<Option<Duration>, Error> {
        let owner = grant.owner.to_string();
        let args = [Text(grant.name.as_str()), Text(&owner), Span(grant.lease)];
        Ok(first(&self.run_repeatable(&self.server.sql.renew_one, &args).await?)?.map(span))
    }

    async fn release(&self, grant: &Grant, keep: Option<Duration>) -> Result<Left, Error> {
        let owner = grant.owner.to_string();
        let whose = [Text(grant.name.as_str()), Text(&owner)];
        let sql = &self.server.sql;
        if let Some(keep) = keep {
            let args = [whose[0], whose[1], Span(keep)];
            return Ok(first(&self.run_once(&sql.keep, &args).await?)?.into());
        }
        // If somebody waited when the lock was granted, somebody may wait now.
        if !self.waited.remove(&grant.owner)
            && let Some(version) = first(&self.run_once(&sql.release, &whose).await?)?
        {
            return Ok(Left::Free(version));
        }
        if self.release_to_waiter(grant, None).await?.is_some() {
            return Ok(Left::Taken);
        }
        let rows = self.run_once(&sql.release_and_notify, &whose).await?;
        self.refill_if(&grant.name, &rows, 1).await;
        Ok(first(&rows)?.into())
    }

    async fn hand_on(
        self: Arc<Self>,
        grant: &Grant,
        next: &Request,
    ) -> Result<Option<Handed>, Error> {
        let (owner, next_owner) = (grant.owner.to_string(), next.owner.to_string());
        // If somebody waited when the lock was granted, somebody may wait now.
        if !self.waited.contains(&grant.owner) {
            let args = [
                Text(grant.name.as_str()),
                Text(&owner),
                Text(&next_owner),
                Text(next.label.as_str()),
                Span(next.lease),
                Number(next.floor.get().cast_signed() + 1),
            ];
            let rows = self.run_once(&self.server.sql.hand_on, &args).await?;
            if let Some(token) = first(&rows)? {
                return Ok(Some(Handed::Granted(token_of(token)?)));
            }
        }
        let waiter = QueueWaiter::new(Arc::clone(&self), next);
        let entry = waiter.entry();
        let Some((token, queued)) = self.release_to_waiter(grant, Some(&entry)).await? else {
            return Ok(None);
        };
        self.waited.remove(&grant.owner);
        if !queued {
            return Ok(Some(Handed::Passed));
        }
        entry.queued.store(true, Ordering::Relaxed);
        Ok(Some(Handed::Queued(token, Box::new(waiter))))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let owner = request.owner.to_string();
        let args = [Text(request.name.as_str()), Text(&owner)];
        let rows = self.run_repeatable(&self.server.sql.abandon, &args).await?;
        self.refill_if(&request.name, &rows, 0).await;
        self.leave_readers(request).await
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<bool, Error> {
        let owner = grant.owner.to_string();
        let token = Number(token.get().cast_signed());
        let args = [Text(grant.name.as_str()), Text(&owner), token];
        Ok(!self.run_once(&self.server.sql.raise, &args).await?.is_empty())
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<bool, Error> {
        let (former, owner) = (grant.owner.to_string(), request.owner.to_string());
        let (name, label) = (Text(grant.name.as_str()), Text(request.label.as_str()));
        let (lease, token) = (Span(request.lease), Number(grant.token.get().cast_signed()));
        let args = [name, Text(&former), Text(&owner), label, lease, token];
        Ok(!self.run_repeatable(&self.server.sql.reown, &args).await?.is_empty())
    }

    async fn force(&self, name: &LockName) -> Result<bool, Error> {
        Ok(!self.run_once(&self.server.sql.force, &[Text(name.as_str())]).await?.is_empty())
    }

    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Listed>, Error> {
        let rows = self
            .run_repeatable(&self.server.sql.list, &[Text(after), Number(limit.into())])
            .await?;
        let listed = |row: &PgRow| Ok((row.try_get("name")?, Self::shown(row)));
        rows.iter().map(listed).collect::<Result<_, _>>().map_err(general)
    }

    async fn sweep(&self, rows: bool) -> Result<(), Error> {
        let server = Arc::clone(&self.server);
        self.sweeping.begin(async move {
            if rows {
                sweep(&server).await?;
            }
            server.run_once(&server.sql.forget_records, &[Number(SWEPT)]).await.map(drop)
        });
        Ok(())
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.apply_init(init).await
    }

    async fn clock_micros(&self) -> Result<Option<i64>, Error> {
        self.server.number(&self.server.sql.clock).await
    }

    async fn highest_token(&self) -> Result<i64, Error> {
        self.ready().await?;
        Ok(self.server.number(&self.server.sql.highest_token).await?.unwrap_or(0))
    }

    async fn warnings(&self) -> Result<Vec<String>, Error> {
        Ok(Health::of(&self.server).await?.warnings())
    }

    async fn close(&self) {
        self.sweeping.end(self.server.timeout).await;
        if let Some(listening) = self.listening.get() {
            listening.stop();
        }
        self.server.close().await;
    }
}

/// In this order, so that rows are deleted by the watermark before this raise.
async fn sweep(server: &Server) -> Result<(), Error> {
    let sql = &server.sql;
    let _pass = gate::attempt(Some(&server.gate)).await?;
    for _ in 0..SWEEPS {
        let swept: Option<i64> = first(&server.run_once(&sql.sweep, &[Number(SWEPT)]).await?)?;
        if swept < Some(SWEPT) {
            break;
        }
    }
    server.run_once(&sql.sweep_watermark, &[]).await?;
    server.run_once(&sql.sweep_entries, &[Number(SWEPT)]).await.map(drop)
}
