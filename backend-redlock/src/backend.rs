//! The trait `Backend`: each operation asks a quorum of nodes.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Env as _, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Init, Instant, LockName, LockState, Page, Quarantined, ReleaseOptions,
    ReleaseOutcome, Released, Renewal, Request, StoreSettings, SystemEnv,
};

use crate::{
    batch::{self, BatchQueue},
    quorum::{node::micros, nodes::Quorum},
    steps::{admin, release, renew::renew_batch},
    tunables::{BATCH_POLICY, CLOSE_REST, RENEWALS_PER_CALL},
    waiting,
};

/// A store on several independent Redis servers.
#[derive(Debug)]
pub(crate) struct Redlock {
    pub(crate) quorum: Arc<Quorum>,
    pub(crate) queue: BatchQueue,
}

impl Redlock {
    pub(crate) fn new(quorum: Arc<Quorum>) -> Self {
        Self { quorum, queue: BatchQueue::new(BATCH_POLICY) }
    }
}

#[async_trait]
impl Backend for Redlock {
    fn kind(&self) -> &'static str {
        "redlock"
    }

    /// The configured addresses of the nodes, sorted. All clients configure the same nodes. What a
    /// node itself stores may be lost while the store goes on.
    async fn identity(&self) -> Result<String, Error> {
        Ok(self.quorum.name_of_store())
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.quorum.promised()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        // An attempt of a waiter is also its heartbeat.
        let entry = self.quorum.wake.entry(request.owner);
        let made = batch::attempt(&self.queue, &self.quorum, request, entry.as_ref()).await;
        made.map_err(|error| error.at("redlock", "acquire").on(&request.name))
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let made = waiting::enqueue(&self.quorum, request).await;
        made.map_err(|error| error.at("redlock", "enqueue").on(&request.name))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let done = release::abandon(&self.quorum, request).await;
        done.map_err(|error| error.at("redlock", "abandon").on(&request.name))
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let batches = grants.chunks(RENEWALS_PER_CALL);
        let batches = batches.map(|batch| renew_batch(&self.quorum, batch, sent));
        // All batches run at once, so that a node that hangs takes no time from the others.
        futures_util::future::join_all(batches).await.into_iter().flatten().collect()
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let ReleaseOptions { keep, next, .. } = options;
        let released = batch::release(&self.queue, &self.quorum, grant, keep, next).await;
        let (outcome, next) =
            released.map_err(|error| error.at("redlock", "release").on(&grant.name))?;
        Ok(Released::new(outcome, next.map(Enqueued::Granted)))
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let raised = admin::raise(&self.quorum, grant, token).await;
        raised.map_err(|error| error.at("redlock", "raise").on(&grant.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let state = admin::inspect(&self.quorum, name).await;
        state.map_err(|error| error.at("redlock", "inspect").on(name))
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        if from.is_some() {
            let message = "a listing has one part, which begins without a cursor";
            return Err(Error::new(ErrorKind::InvalidInput, message).at("redlock", "list"));
        }
        admin::list_held(&self.quorum).await.map_err(|error| error.at("redlock", "list"))
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        let freed = release::force_release(&self.quorum, name).await;
        freed.map_err(|error| error.at("redlock", "force-release").on(name))
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        Ok(admin::quarantine(&self.quorum).await)
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        admin::init(&self.quorum, init).await.map_err(|error| error.at("redlock", "init"))
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        let highest = admin::highest_mark(&self.quorum).await;
        highest.map(Some).map_err(|error| error.at("redlock", "highest-token"))
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        let read = admin::refresh_clocks(&self.quorum).await;
        read.map_err(|error| error.at("redlock", "clock"))?;
        let (wall, here) = (SystemEnv.wall_micros(), micros(SystemEnv.now()));
        Ok(self.quorum.offset().map(|offset| offset + here as i64 - wall as i64))
    }

    async fn close(&self) {
        self.quorum.close(self.quorum.options.longest_wait() + CLOSE_REST).await;
    }
}
