//! The trait `Backend`, in terms of the steps.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Env as _, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Init, Instant, LockName, LockState, Page, Quarantined, RecordRead, RecordWrite,
    ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, StoreSettings, SystemEnv,
    WriteOutcome,
};

use crate::{
    error::of_question,
    steps::{acquire, admin, claim, enqueue, init, raise, record, release, renew},
    store::{OwnEntry, Store},
};

/// Adds to an error which operation failed.
trait During<T> {
    fn during(self, operation: &'static str) -> Result<T, Error>;

    /// As `during`, of an operation that only asks.
    fn asked(self, operation: &'static str) -> Result<T, Error>;
}

impl<T> During<T> for Result<T, Error> {
    fn during(self, operation: &'static str) -> Self {
        self.map_err(|error| error.at("zookeeper", operation))
    }

    fn asked(self, operation: &'static str) -> Self {
        self.map_err(of_question).during(operation)
    }
}

#[async_trait]
impl Backend for Store {
    fn kind(&self) -> &'static str {
        "zookeeper"
    }

    /// The number comes last, so that it seldom decides the order of two stores.
    async fn identity(&self) -> Result<String, Error> {
        let settings = self.settings_for_attempts().await.asked("identity")?;
        Ok(format!("zookeeper:{}:{:016x}", self.layout.prefix(), settings.store))
    }

    fn was_busy(&self, name: &LockName) -> bool {
        self.busy.lock().contains(name)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        Self::guarantees(self)
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let attempt = match self.waiters.get(request.owner) {
            Some(waiting) => claim::claim(self, request, &waiting).await,
            None => acquire::try_acquire(self, request).await,
        };
        attempt.during("acquire")
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        enqueue::enqueue(self, request).await.during("enqueue")
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        release::abandon(self, request).await.during("abandon")
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let renewals = renew::renew(self, grants, sent).await.into_iter();
        let during = renewals.map(|renewal| match renewal {
            Renewal::Unknown(error) => Renewal::Unknown(error.at("zookeeper", "renew")),
            other => other,
        });
        during.collect()
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let held = OwnEntry::of(grant).during("release")?;
        let (Some(next), None) = (options.next, options.keep) else {
            let released = release::release(self, grant, held, options.keep).await;
            return Ok(Released::plain(released.during("release")?));
        };
        release::release_and_enqueue(self, grant, held, next).await.during("release")
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let held = OwnEntry::of(grant).during("raise")?;
        self.check_token(token).during("raise")?;
        if raise::raise(self, grant, held, token).await.during("raise")? {
            return Ok(());
        }
        let message = "the grant whose token was to be raised is gone";
        Err(Error::new(ErrorKind::NotHeld, message).at("zookeeper", "raise").on(&grant.name))
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        record::read(self, name).await.asked("read-record")
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let held = OwnEntry::of(grant).during("write-record")?;
        record::write(self, grant, held, write).await.during("write-record")
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        admin::inspect(self, name).await.asked("inspect")
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        admin::list(self, from).await.asked("list")
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        admin::force_release(self, name).await.during("force-release")
    }

    async fn force_release_if(
        &self,
        name: &LockName,
        token: FencingToken,
    ) -> Result<ReleaseOutcome, Error> {
        admin::force_release_if(self, name, token).await.during("force-release")
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        let settings = self.settings_for_attempts().await.asked("check")?;
        Ok(settings.quarantined(self.sessions.clock.earliest()))
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_reset_tokens().during("init")?;
        init::init(self, init).await.during("init")
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        let (theirs, ours) = (self.sessions.clock.earliest(), SystemEnv.wall_micros());
        Ok(Some(theirs.cast_signed().saturating_sub(ours.cast_signed())))
    }

    async fn close(&self) {
        join_all(self.sessions.close().iter().map(|session| session.close())).await;
    }
}
