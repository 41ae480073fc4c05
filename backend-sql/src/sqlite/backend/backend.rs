//! The trait `Dialect` for SQLite.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Guarantees, Init, LockName, Mode, OwnerId, Request,
    StoreSettings, Waiter,
};
use sqlx::{Row as _, sqlite::SqliteRow};

use super::{
    queue::Outcome,
    steps::{nanos, read_to_end},
};
use crate::{
    dialect::{Dialect, Handed, Left, Listed, Row},
    error::general,
    settings::{check_longest, check_version},
    sqlite::{
        connection::emptied,
        epoch::{now, today, wall_micros},
        rows,
        store::{Sqlite, milliseconds},
    },
    tunables::{REMEMBERED, sqlite::SHORTEST_LEASE},
    waiting::QueueWaiter,
};

#[async_trait]
impl Dialect for Sqlite {
    const KIND: &'static str = "sqlite";
    const SHARES: bool = true;

    fn timeout(&self) -> Duration {
        self.file.settings.timeout
    }

    async fn identity(&self) -> Result<String, Error> {
        self.ready().await?;
        self.file.value(&self.sql.identity).await
    }

    async fn agree_once(&self) -> Result<(), Error> {
        self.ready().await
    }

    async fn check_version(&self) -> Result<(), Error> {
        if !self.file.is_there() {
            return Ok(());
        }
        check_version(self.version().await?)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        let promised = Arc::clone(&self.promised.read());
        if promised.push != self.bells.works() {
            self.set_promises(promised.longest_lease);
        }
        Arc::clone(&self.promised.read())
    }

    fn broken(&self) -> u64 {
        self.file.retry.broken()
    }

    async fn insert(&self, request: &Request) -> Result<Option<FencingToken>, Error> {
        let statement = match request.mode {
            Mode::Shared => &self.sql.join,
            _ => &self.sql.insert,
        };
        self.grant(statement, request, None).await
    }

    async fn create_row(&self, name: &LockName) -> Result<(), Error> {
        let create = &self.sql.create_row;
        self.write(|| sqlx::query(create.clone()).bind(name.as_str()).bind(&self.epoch)).await
    }

    async fn take(&self, request: &Request, version: i64) -> Result<Option<FencingToken>, Error> {
        self.grant(&self.sql.take, request, Some(version)).await
    }

    fn reads_first(&self, request: &Request) -> bool {
        self.entries.reads_first(request)
    }

    async fn read_row(
        &self,
        name: &LockName,
        owner: Option<OwnerId>,
    ) -> Result<Option<Row>, Error> {
        let row = self.fetch(name, owner).await?;
        row.map(|row| rows::read(&row, &self.epoch)).transpose()
    }

    async fn read_to_take(&self, request: &Request) -> Result<Option<Row>, Error> {
        // Enter the queue before reading. A release after that then finds the entry.
        if let Some(entry) = self.entries.of(request.owner)
            && entry.begin_heartbeat()
        {
            self.enter(request, &entry).await?;
        }
        let found = self.fetch(&request.name, Some(request.owner)).await?;
        let read = found.as_ref().map(|row| rows::read(row, &self.epoch)).transpose()?;
        self.entries.note(request, read.as_ref());
        let (Some(found), Some(row)) = (found, read) else { return Ok(None) };
        let unseen = rows::end(&found, &self.epoch)?.is_none();
        if unseen && row.is_held() {
            self.note_sighting(&row).await?;
        }
        Ok(Some(row))
    }

    fn waiter(self: Arc<Self>, request: &Request) -> Box<dyn Waiter> {
        Box::new(QueueWaiter::new(self, request))
    }

    async fn renew(&self, grants: &[&Grant]) -> Result<Vec<Option<Duration>>, Error> {
        if self.file.is_left()
            && let Err(error) = self.file.database().await
        {
            return Err(Error::new(ErrorKind::Lost, "the file was replaced").with_source(error));
        }
        let (readers, writers): (Vec<&Grant>, Vec<&Grant>) =
            grants.iter().partition(|grant| grant.mode == Mode::Shared);
        let mut longest = HashMap::new();
        if !writers.is_empty() {
            longest.extend(self.renew_batch(&self.sql.renew, &writers).await?);
        }
        if !readers.is_empty() {
            for (owners, ms) in self.renew_batch(&self.sql.renew_readers, &readers).await? {
                let wrong = |error| Error::new(ErrorKind::Config, "renewals").with_source(error);
                let owners: Vec<String> = serde_json::from_str(&owners).map_err(wrong)?;
                longest.extend(owners.into_iter().map(|owner| (owner, ms)));
            }
        }
        let set = |grant: &&Grant| {
            let longest = milliseconds(*longest.get(&grant.owner.to_string())?);
            Some(grant.lease.min(longest))
        };
        Ok(grants.iter().map(set).collect())
    }

    async fn part(&self, grant: &Grant) -> Result<bool, Error> {
        let database = self.database().await?;
        let reader = grant.owner.to_string();
        let write = || {
            let query = sqlx::query_scalar::<_, String>(self.sql.part.clone());
            let query = query.bind(grant.name.as_str()).bind(&reader);
            let query = query.bind(now()).bind(&self.epoch);
            async { read_to_end(query.fetch_all(&mut *database.lend().await?)).await }
        };
        let holder = self.file.while_busy(write).await?;
        Ok(holder.is_some_and(|holder| holder != reader))
    }

    async fn tell_next_reader(&self, joined: &Request) {
        if self.entries.of(joined.owner).is_some_and(|entry| entry.is_queued())
            && let Err(error) = self.wake_first(&joined.name).await
        {
            tracing::trace!(target: "leasehold", name = %joined.name, %error, "the next reader was not woken; its next poll finds the lock");
        }
    }

    async fn release(&self, grant: &Grant, keep: Option<Duration>) -> Result<Left, Error> {
        if let Some(keep) = keep {
            return Ok(self.change(&self.sql.keep, grant, Some(nanos(keep))).await?.into());
        }
        Ok(match self.release_to_waiter(grant, None).await? {
            None => Left::NotHeld,
            Some(Outcome { owner: None, version, .. }) => Left::Free(version),
            Some(_) => Left::Taken,
        })
    }

    async fn hand_on(
        self: Arc<Self>,
        grant: &Grant,
        next: &Request,
    ) -> Result<Option<Handed>, Error> {
        let Some(outcome) = self.release_to_waiter(grant, Some(next)).await? else {
            return Ok(None);
        };
        if outcome.owner == Some(next.owner) {
            return Ok(Some(Handed::Granted(outcome.token)));
        }
        let waiter = QueueWaiter::new(Arc::clone(&self), next);
        if let Some(entry) = self.entries.of(next.owner) {
            entry.begin_heartbeat();
            if let Err(error) = self.enter(next, &entry).await {
                // Its first poll tries again.
                tracing::trace!(target: "leasehold", name = %next.name, %error, "no queue entry yet");
            }
            // The lock may have been released before the entry was in the queue.
            entry.wake();
        }
        Ok(Some(Handed::Queued(outcome.token, Box::new(waiter))))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let owner = request.owner.to_string();
        // First the tombstone, so that a late statement finds it. Then remove what an earlier
        // statement took or entered.
        self.write(|| {
            let query = sqlx::query(self.sql.abandon.clone()).bind(&owner);
            query.bind(now()).bind(&self.epoch).bind(today())
        })
        .await?;
        self.remove(request).await
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<bool, Error> {
        let token = token.get() as i64;
        Ok(self.change(&self.sql.raise, grant, Some(token)).await?.is_some())
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<bool, Error> {
        let Some(database) = self.reader().await? else { return Ok(false) };
        let (former, owner) = (grant.owner.to_string(), request.owner.to_string());
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(self.sql.reown.clone());
            let query = query.bind(grant.name.as_str()).bind(&former).bind(&owner);
            let query = query.bind(request.label.as_str()).bind(nanos(request.lease));
            let query = query.bind(now()).bind(&self.epoch).bind(grant.token.get().cast_signed());
            async { read_to_end(query.fetch_all(&mut *database.lend().await?)).await }
        };
        Ok(self.file.while_busy(write).await?.is_some())
    }

    async fn force(&self, name: &LockName) -> Result<bool, Error> {
        let Some(database) = self.reader().await? else { return Ok(false) };
        let write = || {
            let query = sqlx::query_scalar::<_, i64>(self.sql.force.clone());
            let query = query.bind(name.as_str()).bind(now()).bind(&self.epoch);
            let query = query.bind(wall_micros());
            async { read_to_end(query.fetch_all(&mut *database.lend().await?)).await }
        };
        let freed = self.file.while_busy(write).await?.is_some();
        if freed {
            self.wake_first(name).await?;
        }
        Ok(freed)
    }

    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Listed>, Error> {
        let Some(database) = self.reader().await? else { return Ok(Vec::new()) };
        let read = || {
            let query = sqlx::query(self.sql.list.clone());
            let query = query.bind(after).bind(now()).bind(&self.epoch);
            let query = query.bind(wall_micros()).bind(limit);
            async { query.fetch_all(&mut *database.lend().await?).await }
        };
        let rows = self.file.while_busy(read).await?;
        let listed = |row: &SqliteRow| Ok((row.try_get("position")?, rows::read(row, &self.epoch)));
        rows.iter().map(listed).collect::<Result<_, _>>().map_err(general)
    }

    async fn sweep(&self, rows: bool) -> Result<(), Error> {
        if rows {
            for statement in [&self.sql.sweep_watermark, &self.sql.sweep] {
                self.write(|| sqlx::query(statement.clone()).bind(now()).bind(&self.epoch)).await?;
            }
        }
        self.write(|| sqlx::query(self.sql.forget_seen.clone())).await?;
        self.write(|| {
            let query = sqlx::query(self.sql.forget_entries.clone()).bind(now());
            query.bind(&self.epoch).bind(wall_micros())
        })
        .await?;
        self.write(|| sqlx::query(self.sql.forget_records.clone()).bind(wall_micros())).await?;
        let bells = Arc::clone(&self.bells);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || bells.sweep()).await {
            tracing::trace!(target: "leasehold", %error, "the pipes of clients that have ended may remain");
        }
        let before = now().saturating_sub(nanos(REMEMBERED));
        self.write(|| {
            sqlx::query(self.sql.forget.clone()).bind(before).bind(&self.epoch).bind(today())
        })
        .await
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
        check_version(self.version().await?)?;
        if let Some(longest) = init.longest_lease {
            let (set, ms) = (&self.sql.set_longest_lease, longest.as_millis() as i64);
            self.file.write(|| sqlx::query(set.clone()).bind(ms)).await?;
        }
        let longest = self.longest_lease().await?;
        self.set_promises(longest);
        Ok(StoreSettings::new(longest, None))
    }

    async fn clock_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn highest_token(&self) -> Result<i64, Error> {
        match self.reader().await? {
            Some(_) => self.file.value(&self.sql.highest_token).await,
            None => Ok(0),
        }
    }

    async fn warnings(&self) -> Result<Vec<String>, Error> {
        Ok(emptied::emptied(&self.file.path).into_iter().collect())
    }

    async fn close(&self) {
        self.bells.close();
        self.file.close().await;
    }
}
