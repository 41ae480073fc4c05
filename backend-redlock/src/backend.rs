//! The trait, in terms of the quorum.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Env as _, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Init, Instant, LockName, LockState, Outcome, Page, Release, Released, Renewal,
    Request, StoreSettings, SystemEnv,
};

use crate::{peer::micros, quorum::Quorum, renew::BATCH, wake::Waiting};

/// A connection to a store on several Redis.
#[derive(Debug)]
pub(crate) struct Redlock(pub(crate) Arc<Quorum>);

#[async_trait]
impl Backend for Redlock {
    fn kind(&self) -> &'static str {
        "redlock"
    }

    /// The nodes as they are named, in any order: all clients name the same, and what a node itself
    /// knows may be lost while the others go on.
    async fn identity(&self) -> Result<String, Error> {
        Ok(self.0.name_of_store())
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.0.promised()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        // The attempt of a place is its heartbeat.
        let ticket = self.0.wake.ticket(request.owner);
        let made = self.0.attempt(request, ticket.as_ref()).await;
        made.map_err(|error| error.at("redlock", "acquire").on(&request.name))
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let rank = self.0.clock().unwrap_or_default();
        let (turn, ticket) = Waiting::enter(&self.0, request, rank);
        let made = self.0.attempt(request, Some(&ticket)).await;
        if !matches!(made, Ok(Attempt::Granted(_) | Attempt::Busy(_))) {
            self.0.leave_places(request, ticket.given());
        }
        Ok(match made.map_err(|error| error.at("redlock", "enqueue").on(&request.name))? {
            Attempt::Granted(grant) => Enqueued::Granted(grant),
            Attempt::Busy(busy) => Enqueued::Waiting(Box::new(turn), busy),
            Attempt::Quarantined(quarantined) => Enqueued::Quarantined(quarantined),
        })
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let done = self.0.abandon(request).await;
        done.map_err(|error| error.at("redlock", "abandon").on(&request.name))
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let batches = grants.chunks(BATCH).map(|batch| self.0.renew_batch(batch, sent));
        // All at once: one that hangs takes no time from the others.
        futures_util::future::join_all(batches).await.into_iter().flatten().collect()
    }

    async fn release(&self, grant: &Grant, how: Release<'_>) -> Result<Released, Error> {
        let released = self.0.release(grant, how.keep, how.next).await;
        let (outcome, next) =
            released.map_err(|error| error.at("redlock", "release").on(&grant.name))?;
        Ok(Released { outcome, next: next.map(Enqueued::Granted) })
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let raised = self.0.raise(grant, token).await;
        raised.map_err(|error| error.at("redlock", "raise").on(&grant.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.0.inspect(name).await.map_err(|error| error.at("redlock", "inspect").on(name))
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        if from.is_some() {
            let message = "a listing has one part; allowed is none to begin with";
            return Err(Error::new(ErrorKind::InvalidInput, message).at("redlock", "list"));
        }
        self.0.list().await.map_err(|error| error.at("redlock", "list"))
    }

    async fn force_release(&self, name: &LockName) -> Result<Outcome, Error> {
        self.0.force(name).await.map_err(|error| error.at("redlock", "force-release").on(name))
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.0.init(init).await.map_err(|error| error.at("redlock", "init"))
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        let highest = self.0.highest_mark().await;
        highest.map(Some).map_err(|error| error.at("redlock", "highest-token"))
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        self.0.refresh().await.map_err(|error| error.at("redlock", "clock"))?;
        let (wall, here) = (SystemEnv.wall_micros(), micros(SystemEnv.now()));
        let difference = self.0.offset().map(|offset| offset + here as i64 - wall as i64);
        Ok(difference)
    }

    async fn close(&self) {
        self.0.close(self.0.options.longest_wait() + Duration::from_millis(100)).await;
    }
}
