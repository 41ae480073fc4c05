//! The trait `Backend`, in terms of the steps.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant, Guarantees, Init,
    Instant, LockName, LockState, Page, Quarantined, RecordRead, RecordWrite, ReleaseOptions,
    ReleaseOutcome, Released, Renewal, Request, StoreSettings, WriteOutcome,
};

use crate::{
    keys::entry::Held,
    restore,
    steps::{acquire, admin, claim, enqueue, raise, record, release, renew, reown},
    store::Store,
};

/// Adds to an error which operation failed.
trait During<T> {
    fn during(self, operation: &'static str) -> Result<T, Error>;
}

impl<T> During<T> for Result<T, Error> {
    fn during(self, operation: &'static str) -> Self {
        self.map_err(|error| error.at("etcd", operation))
    }
}

/// The state that this backend keeps in its grants.
fn held(grant: &Grant) -> Result<&Held, Error> {
    let held = grant.state.as_ref().and_then(|state| state.downcast_ref());
    held.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "the grant is not of this backend"))
}

#[async_trait]
impl Backend for Store {
    fn kind(&self) -> &'static str {
        "etcd"
    }

    async fn identity(&self) -> Result<String, Error> {
        self.restore.name_of_store().await.during("identity")
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.restore.guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let attempt = match self.waiters.get(request.owner) {
            Some(_) => claim::claim(self, request).await,
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
        // All keepalives are sent before the first is answered.
        let renewals = grants.iter().map(|grant| async move {
            match held(grant) {
                Ok(held) => renew::renew(self, grant, held, sent).await.during("renew"),
                Err(error) => Err(error),
            }
            .unwrap_or_else(Renewal::Unknown)
        });
        join_all(renewals).await
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let held = held(grant).during("release")?;
        let (Some(next), None) = (options.next, options.keep) else {
            let released = release::release(self, held, options.keep).await;
            return Ok(Released::plain(released.during("release")?));
        };
        release::release_and_enqueue(self, held, next).await.during("release")
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let held = held(grant).during("raise")?;
        self.restore.check_token(token).during("raise")?;
        if raise::raise(self, held, token).await.during("raise")? {
            return Ok(());
        }
        let message = "the grant whose token was to be raised is gone";
        Err(Error::new(ErrorKind::NotHeld, message).at("etcd", "raise").on(&grant.name))
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        let given = reown::reown(self, grant, request).await.during("reown");
        given.map_err(|error| error.on(&grant.name))
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        record::read(self, name).await.during("read-record")
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let held = held(grant).during("write-record")?;
        record::write(self, grant, held, write).await.during("write-record")
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        admin::inspect(self, name).await.during("inspect")
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        admin::list(self, from).await.during("list")
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
        restore::quarantine(&self.rpc, &self.layout).await.during("check")
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_reset_tokens().during("init")?;
        admin::init(self, init).await.during("init")
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        // etcd does not show its clock, so this backend uses the clock of this machine instead.
        Ok(None)
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        admin::highest_token(self).await.map(Some).during("highest-token")
    }

    async fn close(&self) {
        self.watch.stop();
        self.leases.pool.close().await;
    }
}
