//! The trait `Dialect` for MySQL.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Guarantees, Init, LockName, Mode, OwnerId, Promise,
    Request, StoreSettings, Waiter,
};
use sqlx::{AssertSqlSafe, Row as _, SqlSafeStr as _, mysql::MySqlRow};

use super::steps::Check;
use crate::{
    backend::poll_behind,
    dialect::{Dialect, Handed, Left, Listed, Row},
    error::general,
    gate::{self, Gate},
    mysql::{
        connection::server::Server,
        rows::{batch, ended_of, insert_id, row, text},
        statements::{
            self,
            Argument::{Bytes, Number, Text},
            Statements,
        },
        store::{Mysql, longest_lease_of},
    },
    servers::times::micros,
    settings::{check_longest, check_version},
    tunables::{
        FAR,
        mysql::{BELL_POLL, SHORTEST_LEASE, SWEEPS, SWEPT},
    },
    waiting::QueueWaiter,
};

#[async_trait]
impl Dialect for Mysql {
    const KIND: &'static str = "mysql";
    const SHARES: bool = true;

    fn gate(&self) -> Option<&Gate> {
        Some(&self.server.gate)
    }

    fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    async fn identity(&self) -> Result<String, Error> {
        let rows = self.ready().await?.rows(&self.sql.identity, &[]).await?;
        let missing = || Error::new(ErrorKind::Config, "the store's settings are missing");
        let row = rows.first().ok_or_else(missing)?;
        text(row, 0).map_err(general)
    }

    async fn agree_once(&self) -> Result<(), Error> {
        self.ready().await.map(drop)
    }

    async fn check_version(&self) -> Result<(), Error> {
        check_version(self.version().await?)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        let push = self.holds.bells.work();
        if self.promised.read().push != push {
            Arc::make_mut(&mut self.promised.write()).push = push;
        }
        Arc::clone(&self.promised.read())
    }

    fn broken(&self) -> u64 {
        self.server.broken()
    }

    async fn insert(&self, request: &Request) -> Result<Option<FencingToken>, Error> {
        let statement = match request.mode {
            Mode::Shared => &self.sql.join,
            _ => &self.sql.insert,
        };
        self.grant(statement, request, None).await
    }

    async fn create_row(&self, name: &LockName) -> Result<(), Error> {
        let server = self.ready().await?;
        let row = [Bytes(name.as_str().as_bytes()), Number(self.known_watermark())];
        server.execute_repeatable(&self.sql.create_row, &row).await.map(drop)
    }

    async fn take(&self, request: &Request, version: i64) -> Result<Option<FencingToken>, Error> {
        self.grant(&self.sql.take, request, Some(version)).await
    }

    async fn retake(
        &self,
        request: &Request,
        version: Option<i64>,
    ) -> Result<Option<FencingToken>, Error> {
        self.grant_unchecked(&self.sql.take, request, version, Check::Before).await
    }

    async fn read_row(
        &self,
        name: &LockName,
        owner: Option<OwnerId>,
    ) -> Result<Option<Row>, Error> {
        self.read_of(name, owner).await?.as_ref().map(row).transpose()
    }

    fn poll(&self, owner: OwnerId, others: u32) -> Duration {
        let Some(entry) = self.entries.of(owner) else { return poll_behind::<Self>(others) };
        let listens = entry.is_listening();
        entry.set_seldom(listens);
        if listens { BELL_POLL } else { poll_behind::<Self>(others) }
    }

    fn reads_first(&self, request: &Request) -> bool {
        self.entries.reads_first(request)
    }

    async fn read_to_take(&self, request: &Request) -> Result<Option<Row>, Error> {
        let found = self.read_of(&request.name, Some(request.owner)).await?;
        if let Some(found) = found.as_ref().filter(|_| request.mode == Mode::Shared) {
            self.make_room(&request.name, &ended_of(found)?).await?;
        }
        let mut row = found.as_ref().map(row).transpose()?;
        if let Some(row) = &mut row {
            // Beyond `FAR` the number makes no difference: then all poll at the same pace, often
            // enough for the heartbeats.
            row.before_us = row.before_us.min(FAR);
        }
        self.entries.note(request, row.as_ref());
        let is_ours =
            row.as_ref().is_some_and(|row| row.is_held() && row.owner == Some(request.owner));
        // An entry of the holder itself would be served after its release.
        if let Some(entry) = self.entries.of(request.owner)
            && !is_ours
        {
            self.enter(request, &entry, row.as_ref().map(|row| row.queued)).await?;
        }
        Ok(row)
    }

    fn waiter(self: Arc<Self>, request: &Request) -> Box<dyn Waiter> {
        Box::new(QueueWaiter::new(self, request))
    }

    async fn renew(&self, grants: &[&Grant]) -> Result<Vec<Option<Duration>>, Error> {
        let server = self.ready().await?;
        let holds = grants.iter().map(|grant| (grant.owner, &grant.name, grant.lease));
        let longest = longest_lease_of(&self.holds.look(holds).await?)?;
        // In one order, so that two batches never wait for each other's rows.
        let mut sorted = grants.to_vec();
        sorted.sort_unstable_by_key(|grant| grant.name.as_str());
        let asked = sorted.iter().map(|grant| (*grant, grant.lease.min(longest)));
        let batch = batch(asked.map(|(grant, lease)| (&grant.name, Some((grant.owner, lease)))));
        let batch = Text(&batch);
        let answer = server.execute_repeatable(&self.sql.renew, &[batch]).await?;
        let set = |grant: &&Grant| Some(grant.lease.min(longest));
        if answer.rows_affected() == 2 * grants.len() as u64 {
            return Ok(grants.iter().map(set).collect());
        }
        let Some(clock) = insert_id(&answer) else { return Ok(vec![None; grants.len()]) };
        let rows = server.rows(&self.sql.renewed, &[batch, Number(clock)]).await?;
        let owners: Result<HashSet<_>, _> = rows.iter().map(|row| text(row, 0)).collect();
        let owners = owners.map_err(general)?;
        let there = |grant: &&&Grant| owners.contains(&grant.owner.to_string());
        Ok(grants.iter().map(|grant| Some(grant).filter(there).and_then(set)).collect())
    }

    async fn renew_one(&self, grant: &Grant) -> Result<Option<Duration>, Error> {
        let lease = grant.lease.min(self.longest_lease().await?);
        let renewed = self.change(&self.sql.renew_one, grant, Some(micros(lease))).await?;
        Ok(renewed.map(|_| lease))
    }

    async fn is_usable(&self, request: &Request, grant: &Grant) -> Result<bool, Error> {
        self.remove_entry(request);
        self.check_token(request, grant.token).await
    }

    async fn part(&self, grant: &Grant) -> Result<bool, Error> {
        let part = self.change(&self.sql.part, grant, None);
        let (left, _) = tokio::join!(part, self.removals.done(grant.owner));
        Ok(left? == Some(1))
    }

    async fn release(&self, grant: &Grant, keep: Option<Duration>) -> Result<Left, Error> {
        let release = async {
            let left = match keep {
                Some(keep) => self.change(&self.sql.keep, grant, Some(micros(keep))).await?.into(),
                None if self.entries.is_crowded(&grant.name) => self.hand_off(grant).await?,
                None => self.change(&self.sql.release, grant, None).await?.into(),
            };
            self.holds.end(grant.owner);
            Ok(left)
        };
        let (left, was_queued) = tokio::join!(release, self.removals.done(grant.owner));
        if was_queued && keep.is_none() {
            // The next holder may have released the lock since, and found the entry. If this fails,
            // that grant ends with its claim window.
            let _ = self.withdraw(grant).await;
        }
        left
    }

    async fn hand_on(
        self: Arc<Self>,
        grant: &Grant,
        next: &Request,
    ) -> Result<Option<Handed>, Error> {
        // Its own entry would come first.
        self.removals.done(grant.owner).await;
        let token = self.pass(grant, next).await?;
        if token.is_some() {
            self.holds.end(grant.owner);
            self.holds.begin(next);
        } else {
            self.entries.note_waiters(&grant.name);
        }
        Ok(token.map(Handed::Granted))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let server = self.ready().await?;
        let owner = request.owner.to_string();
        let whose = [Bytes(request.name.as_str().as_bytes()), Bytes(owner.as_bytes())];
        // Otherwise it could remove the mark that the owner was abandoned.
        self.removals.done(request.owner).await;
        let [name, abandoned] = whose;
        let row = [name, abandoned, Number(self.known_watermark())];
        server.execute_repeatable(&self.sql.abandon, &row).await?;
        server.execute_repeatable(&self.sql.abandon_entry, &whose).await?;
        if request.mode == Mode::Shared {
            let left = Grant::new(request, FencingToken::ZERO).with_mode(Mode::Shared);
            self.withdraw(&left).await?;
        }
        self.holds.end(request.owner);
        Ok(())
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<bool, Error> {
        let token = token.get().cast_signed();
        Ok(self.change(&self.sql.raise, grant, Some(token)).await?.is_some())
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<bool, Error> {
        let (former, owner) = (grant.owner.to_string(), request.owner.to_string());
        let arguments = [
            Bytes(grant.name.as_str().as_bytes()),
            Bytes(former.as_bytes()),
            Bytes(owner.as_bytes()),
            Bytes(request.label.as_str().as_bytes()),
            Number(micros(request.lease)),
            Number(grant.token.get().cast_signed()),
        ];
        let answer = self.ready().await?.execute_repeatable(&self.sql.reown, &arguments).await?;
        let is_given = insert_id(&answer).is_some();
        if is_given {
            self.holds.end(grant.owner);
            self.holds.begin(request);
        }
        Ok(is_given)
    }

    async fn force(&self, name: &LockName) -> Result<bool, Error> {
        let longest = Number(micros(self.guarantees().longest_lease));
        let arguments = [Bytes(name.as_str().as_bytes()), longest];
        let answer = self.ready().await?.execute(&self.sql.force, &arguments).await?;
        Ok(insert_id(&answer).is_some())
    }

    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Listed>, Error> {
        // No name sorts before this. MariaDB can be set to take an empty string for null.
        let after = if after.is_empty() { "00" } else { after };
        let arguments = [Text(after), Number(limit.into())];
        let rows = self.ready().await?.rows(&self.sql.list, &arguments).await?;
        let listed = |found: &MySqlRow| Ok((found.try_get("position")?, row(found)));
        rows.iter().map(listed).collect::<Result<_, _>>().map_err(general)
    }

    async fn sweep(&self, rows: bool) -> Result<(), Error> {
        // Read anew now and then: an operator may have changed them.
        self.promise(self.guarantees().longest_lease).await?;
        let (server, sql) = (Arc::clone(&self.server), Arc::clone(&self.sql));
        self.sweeping.begin(async move {
            let _pass = gate::attempt(Some(&server.gate)).await?;
            sweep(&server, &sql, rows).await
        });
        Ok(())
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_restored(
            "it has no quarantine; keep all clients stopped for one longest lease after a restore",
        )?;
        if init.reset_tokens {
            let message = "this store cannot set its tokens back, since it has no quarantine in which its \
                           clock could pass those of before; keep all clients stopped for one longest \
                           lease, drop the tables, and make them anew";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if init.quarantine.is_some() {
            let message = "this store has no quarantine to turn on or off: what it commits is flushed, \
                           or exclusion is not promised";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if let Some(longest) = init.longest_lease {
            check_longest(longest, SHORTEST_LEASE)?;
        }
        let mut complete = true;
        for table in ["{locks}", "{queue}", "{records}"] {
            complete &= self.is_there(table).await?;
        }
        // An `init` that was interrupted may have made the table of settings, and not its row.
        let stored = match self.is_there("{settings}").await? {
            true => self.number(&self.sql.version, &[]).await?,
            false => None,
        };
        stored.map_or(Ok(()), check_version)?;
        if stored.is_none() || !complete {
            let longest = init.longest_lease.unwrap_or(self.settings.longest_lease_of_new());
            let schema: Arc<str> = statements::schema(&self.tables, micros(longest)).into();
            self.server.script(&AssertSqlSafe(schema).into_sql_str()).await?;
        }
        if let Some(longest) = init.longest_lease.filter(|_| stored.is_some()) {
            let longest = Number(micros(longest));
            self.server.execute_repeatable(&self.sql.set_longest_lease, &[longest]).await?;
        }
        let longest = self.longest_lease().await?;
        self.promise(longest).await?;
        if init.records_complete
            && let Promise::Withheld { why } = &self.guarantees().record
        {
            let message = format!("this store cannot note that its records are complete: {why}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(StoreSettings::new(longest, None))
    }

    async fn clock_micros(&self) -> Result<Option<i64>, Error> {
        self.number(&self.sql.clock, &[]).await
    }

    async fn highest_token(&self) -> Result<i64, Error> {
        self.ready().await?;
        Ok(self.number(&self.sql.highest_token, &[]).await?.unwrap_or(0))
    }

    async fn close(&self) {
        self.holds.bells.close();
        self.sweeping.end(self.settings.timeout).await;
        self.server.close().await;
    }
}

/// Deletes rows that are needed no more. It never waits for a row that somebody else has locked.
async fn sweep(server: &Server, sql: &Statements, rows: bool) -> Result<(), Error> {
    for _ in 0..if rows { SWEEPS } else { 0 } {
        let free = server.rows(&sql.free_names, &[Number(SWEPT as i64)]).await?;
        let read = |row: &MySqlRow| Ok((row.try_get(0)?, row.try_get(1)?));
        let free: Result<Vec<(String, i64)>, sqlx::Error> = free.iter().map(read).collect();
        let free = free.map_err(general)?;
        let Some(highest) = free.iter().map(|(_, token)| *token).max() else { break };
        let highest = Number(highest);
        server.execute_repeatable(&sql.sweep_watermark, &[highest]).await?;
        let names: Vec<_> = free.iter().map(|(name, _)| format!("[\"{name}\"]")).collect();
        let names = format!("[{}]", names.join(","));
        server.execute_repeatable(&sql.sweep, &[Text(&names), highest]).await?;
        if free.len() < SWEPT {
            break;
        }
    }
    let dead = server.rows(&sql.dead_entries, &[Number(SWEPT as i64)]).await?;
    if !dead.is_empty() {
        let dead: Result<Vec<i64>, _> = dead.iter().map(|row| row.try_get(0)).collect();
        let dead = format!("{:?}", dead.map_err(general)?);
        server.execute_repeatable(&sql.forget_entries, &[Text(&dead)]).await?;
    }
    let over = server.rows(&sql.over_records, &[Number(SWEPT as i64)]).await?;
    if !over.is_empty() {
        let name = |row: &MySqlRow| Ok(format!("[\"{}\"]", text(row, 0)?));
        let names: Result<Vec<_>, sqlx::Error> = over.iter().map(name).collect();
        let names = format!("[{}]", names.map_err(general)?.join(","));
        server.execute_repeatable(&sql.forget_records, &[Text(&names)]).await?;
    }
    Ok(())
}
