//! The trait `Dialect` of leasehold-sql for ShedLock's table, with one implementation for both
//! databases.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use backend_sql::shared::{
    Dialect, Gate, Left, Listed, Records, Row, SqlBackend, Strategy, check_longest, micros, span,
    token_of,
};
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Guarantees, Init, LockName, Mode, OwnerId, Request,
    Signal, StoreSettings, SystemEnv, Waiter, jittered,
};

use super::{
    server::{
        Arg::{Number, Span, Text},
        Server,
    },
    store::{ShedLock, record, row},
};
use crate::tunables::POLL;

/// The position after all names in a listing.
const LAST: &str = "\u{10ffff}";

/// The backend of a store.
pub(super) fn backend<S: Server>(store: ShedLock<S>) -> SqlBackend<ShedLock<S>> {
    SqlBackend::new(store, Strategy::PrimaryKey)
}

/// A waiter that no message wakes: it tries again after a jittered pause.
#[derive(Debug)]
struct Polling;

#[async_trait]
impl Waiter for Polling {
    async fn next(&mut self) -> Signal {
        tokio::time::sleep(jittered(&SystemEnv, POLL)).await;
        Signal::Recheck
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

impl<S: Server> ShedLock<S> {
    async fn acquire_free(&self, request: &Request) -> Result<Option<i64>, Error> {
        let owner = request.owner.to_string();
        let args = [
            Text(request.name.as_str()),
            Text(&owner),
            Text(request.label.as_str()),
            Span(request.lease),
            Number(request.floor.get().cast_signed() + 1),
        ];
        self.ready().await?.run_repeatable(&self.sql.acquire, &args).await
    }
}

impl<S: Server> Records for ShedLock<S> {}

#[async_trait]
impl<S: Server> Dialect for ShedLock<S> {
    const KIND: &'static str = "foreign";

    fn gate(&self) -> Option<&Gate> {
        Some(self.server.gate())
    }

    fn timeout(&self) -> Duration {
        self.described.timeout
    }

    async fn identity(&self) -> Result<String, Error> {
        ShedLock::identity(self).await
    }

    async fn agree_once(&self) -> Result<(), Error> {
        self.ready().await.map(drop)
    }

    async fn check_version(&self) -> Result<(), Error> {
        self.server.existing_tables(&self.names).await?;
        self.stored().await.map(drop)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        Arc::clone(&self.promised.read())
    }

    fn broken(&self) -> u64 {
        self.server.broken()
    }

    async fn insert(&self, request: &Request) -> Result<Option<FencingToken>, Error> {
        if request.mode != Mode::Exclusive {
            let message = "locks of another library are exclusive";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.check_name(&request.name).await?;
        let mut taken = self.acquire_free(request).await?;
        if taken.is_none() && S::NEEDS_ROWS {
            let name = [Text(request.name.as_str())];
            let seen = self.server.states(&self.sql.read, &name).await?;
            if seen.first().is_none_or(|seen| seen.token.is_none()) {
                self.server.run_repeatable(&self.sql.create_row, &name).await?;
                self.server.run_repeatable(&self.sql.create_companion_row, &name).await?;
                taken = self.acquire_free(request).await?;
            }
        }
        let Some(token) = taken else { return Ok(None) };
        match token_of(token) {
            Ok(token) => Ok(Some(token)),
            Err(used_up) => {
                // The lock was granted although no token is left, so it must be released.
                self.release(&Grant::new(request, FencingToken::ZERO), None).await?;
                Err(used_up)
            }
        }
    }

    /// Not needed: only another strategy calls this.
    async fn create_row(&self, _name: &LockName) -> Result<(), Error> {
        Ok(())
    }

    async fn take(&self, request: &Request, _version: i64) -> Result<Option<FencingToken>, Error> {
        self.insert(request).await
    }

    async fn read_row(
        &self,
        name: &LockName,
        _owner: Option<OwnerId>,
    ) -> Result<Option<Row>, Error> {
        let server = self.ready().await?;
        let mut seen = server.states(&self.sql.read, &[Text(name.as_str())]).await?;
        let Some(mut seen) = seen.pop() else { return Ok(None) };
        // A collation may find a name that is spelled differently.
        seen.name = name.as_str().to_owned();
        row(&seen).map(Some)
    }

    fn waiter(self: Arc<Self>, _request: &Request) -> Box<dyn Waiter> {
        Box::new(Polling)
    }

    async fn renew(&self, grants: &[&Grant]) -> Result<Vec<Option<Duration>>, Error> {
        let server = self.ready().await?;
        // The longest lease may have been lowered since the grant.
        let longest = self.stored().await?.longest_lease;
        let asked: Vec<_> = grants.iter().map(|grant| (*grant, grant.lease.min(longest))).collect();
        let renewed = server.renew(&self.sql.renew, &asked).await?;
        Ok(asked.iter().zip(renewed).map(|(each, renewed)| renewed.then_some(each.1)).collect())
    }

    async fn renew_one(&self, grant: &Grant) -> Result<Option<Duration>, Error> {
        let server = self.ready().await?;
        let lease = grant.lease.min(self.stored().await?.longest_lease);
        let owner = grant.owner.to_string();
        let args = [Text(grant.name.as_str()), Text(&owner), Span(lease)];
        Ok(server.run_repeatable(&self.sql.renew_one, &args).await?.map(|_| lease))
    }

    async fn release(&self, grant: &Grant, keep: Option<Duration>) -> Result<Left, Error> {
        let owner = grant.owner.to_string();
        let (name, owner) = (Text(grant.name.as_str()), Text(&owner));
        let server = self.ready().await?;
        let done = match keep {
            Some(keep) => {
                server.run_once(&self.sql.minimum_hold, &[name, owner, Span(keep)]).await?
            }
            None => server.run_once(&self.sql.release, &[name, owner]).await?,
        };
        Ok(done.into())
    }

    /// First the tombstone, then the release: an attempt that ended before the tombstone is
    /// released, and a later attempt finds the tombstone.
    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let owner = request.owner.to_string();
        let whose = [Text(request.name.as_str()), Text(&owner)];
        let server = self.ready().await?;
        server.run_repeatable(&self.sql.tombstone, &whose).await?;
        server.run_repeatable(&self.sql.release, &whose).await?;
        Ok(())
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<bool, Error> {
        let owner = grant.owner.to_string();
        let token = Number(token.get().cast_signed());
        let args = [Text(grant.name.as_str()), Text(&owner), token];
        Ok(self.ready().await?.run_once(&self.sql.raise, &args).await?.is_some())
    }

    async fn force(&self, name: &LockName) -> Result<bool, Error> {
        let (server, name) = (self.ready().await?, [Text(name.as_str())]);
        server.run_repeatable(&self.sql.repair_token, &name).await?;
        Ok(server.run_once(&self.sql.force_release, &name).await?.is_some())
    }

    /// Also lists locks of ShedLock's clients. For a while after one of these was seen, the listing
    /// ends with a migration record.
    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Listed>, Error> {
        if after == LAST {
            return Ok(Vec::new());
        }
        let server = self.ready().await?;
        let args = [Text(after), Number(limit.into())];
        let seen = server.states(&self.sql.list, &args).await?;
        let mut listed: Vec<Listed> =
            seen.iter().map(|seen| (seen.name.clone(), row(seen))).collect();
        if listed.len() < limit as usize
            && let Some(seen) = server.number(&self.sql.last_foreign_holder).await?
        {
            let store = format!("{}:{}", Self::KIND, ShedLock::identity(self).await?);
            let record = record(&store, span(seen))?;
            listed.extend(record.map(|record| (LAST.to_owned(), Ok(record))));
        }
        Ok(listed)
    }

    /// Removes no rows, because ShedLock remembers which rows exist.
    async fn sweep(&self, _rows: bool) -> Result<(), Error> {
        // The server's settings are read again now and then, since an operator may have changed
        // them.
        self.update_guarantees(self.guarantees().longest_lease).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_restored(
            "it has no quarantine; keep all clients stopped for one longest lease after a restore",
        )?;
        init.refuse_records_complete()?;
        if init.reset_tokens || init.quarantine.is_some() {
            let message = "this store has no quarantine: it cannot set its tokens back, and what it commits is \
                           flushed, or exclusion is not promised";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if let Some(longest) = init.longest_lease {
            check_longest(longest, S::SHORTEST_LEASE)?;
        }
        let found = self.server.existing_tables(&self.names).await?;
        if found[2] {
            self.stored().await?;
        }
        if found != [true; 3] {
            self.server.create_tables(&self.names, self.longest_micros(init.longest_lease)).await?;
        }
        if let Some(longest) = init.longest_lease.filter(|_| found[2]) {
            let longest = Number(micros(longest));
            self.server.run_repeatable(&self.sql.set_longest_lease, &[longest]).await?;
        }
        let longest = self.stored().await?.longest_lease;
        self.update_guarantees(longest).await?;
        Ok(StoreSettings::new(longest, None))
    }

    async fn clock_micros(&self) -> Result<Option<i64>, Error> {
        self.server.number(&self.sql.clock).await
    }

    async fn highest_token(&self) -> Result<i64, Error> {
        Ok(self.ready().await?.number(&self.sql.highest_token).await?.unwrap_or(0))
    }

    async fn close(&self) {
        self.server.close().await;
    }
}
