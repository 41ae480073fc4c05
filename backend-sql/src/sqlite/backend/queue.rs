//! The queue of a name: its entries, and how the next waiter is woken.

use async_trait::async_trait;
use lock_core::{Error, FencingToken, Grant, LockName, Mode, OwnerId, Request};

use super::steps::{nanos, read_to_end};
use crate::{
    dialect::Dialect as _,
    error::token_of,
    sqlite::{
        epoch::{now, wall_micros},
        rows,
        store::Sqlite,
    },
    waiting::{CheckResult, Known, Queue, QueueEntries, QueueEntry},
};

/// The state after a release.
pub(super) struct Outcome {
    pub(super) version: i64,
    /// The new owner, if the release granted the lock.
    pub(super) owner: Option<OwnerId>,
    pub(super) token: FencingToken,
}

impl Sqlite {
    /// Adds the entry of a request to the queue, or sends its heartbeat.
    pub(super) async fn enter(&self, request: &Request, entry: &QueueEntry) -> Result<(), Error> {
        self.ready().await?;
        let (owner, bell) = (request.owner.to_string(), self.bells.own());
        let build = || {
            sqlx::query(self.sql.enter.clone())
                .bind(request.name.as_str())
                .bind(&owner)
                .bind(request.label.as_str())
                .bind(request.floor.get() as i64)
                .bind(&bell)
                .bind(now())
                .bind(&self.epoch)
                .bind(wall_micros())
                .bind(request.mode == Mode::Shared)
        };
        self.file.write(build).await.inspect_err(|_| entry.heartbeat_failed())
    }

    /// Releases a grant. The first entry gets the lock, and its client is woken. If nobody waits,
    /// `next` gets the lock. `None`: the grant was not there.
    pub(super) async fn release_to_waiter(
        &self,
        grant: &Grant,
        next: Option<&Request>,
    ) -> Result<Option<Outcome>, Error> {
        let database = self.database().await?;
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
            async { read_to_end(query.fetch_all(&mut *database.lend().await?)).await }
        };
        let released = self.file.while_busy(write).await?;
        let Some((version, owner, token, bell)) = released else { return Ok(None) };
        let owner = owner.map(|owner| owner.parse()).transpose()?;
        if let (Some(owner), Some(bell)) = (owner, bell) {
            self.bells.ring(&bell, owner);
        }
        Ok(Some(Outcome { version, owner, token: token_of(token)? }))
    }

    /// Wakes the first waiter of a name if the lock is free.
    pub(super) async fn wake_first(&self, name: &LockName) -> Result<(), Error> {
        let database = self.database().await?;
        let read = || {
            let query = sqlx::query_as::<_, (String, Option<String>)>(self.sql.first.clone());
            let query = query.bind(name.as_str()).bind(now()).bind(&self.epoch).bind(wall_micros());
            async { query.fetch_optional(&mut *database.lend().await?).await }
        };
        if let Some((owner, Some(bell))) = self.file.while_busy(read).await?
            && let Ok(owner) = owner.parse()
        {
            self.bells.ring(&bell, owner);
        }
        Ok(())
    }

    /// Removes the entry of a request, takes its lock away unless that is kept for a minimum hold,
    /// and wakes the next waiter.
    pub(super) async fn remove(&self, request: &Request) -> Result<(), Error> {
        let (leave, name) = (&self.sql.leave, request.name.as_str());
        let owner = request.owner.to_string();
        // The entry goes first: otherwise the release of the lock could give the lock to it.
        self.write(|| sqlx::query(leave.clone()).bind(name).bind(&owner)).await?;
        let left = Grant::new(request, FencingToken::ZERO);
        if request.mode == Mode::Shared {
            self.part(&left).await?;
        }
        self.change(&self.sql.withdraw, &left, None).await?;
        self.wake_first(&request.name).await
    }
}

#[async_trait]
impl Queue for Sqlite {
    fn entries(&self) -> &QueueEntries {
        &self.entries
    }

    fn is_woken(&self) -> bool {
        self.bells.works()
    }

    async fn check(&self, request: &Request, _known: Known) -> Result<CheckResult, Error> {
        let row = self.fetch(&request.name, Some(request.owner)).await?;
        Ok(match row.map(|row| rows::read(&row, &self.epoch)).transpose()? {
            Some(row) if row.is_held() && row.owner == Some(request.owner) => {
                CheckResult::Granted(row.token, row.remaining)
            }
            Some(row) if row.refuses(request) => CheckResult::Wait(row.before_us, None),
            _ => CheckResult::Free,
        })
    }

    async fn leave(&self, request: &Request) -> Result<(), Error> {
        self.remove(request).await
    }
}
