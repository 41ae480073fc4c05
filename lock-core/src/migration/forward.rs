//! The trait: forwarded to what carries it out in one store or in both.

#![deny(clippy::missing_trait_methods)]

use std::sync::Arc;

use async_trait::async_trait;

use super::{Active, Migration, fleet::is_record};
use crate::{
    Attempt, Backend, Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant, Guarantees, Init,
    Instant, LockName, LockState, Outcome, Page, Release, Released, Renewal, Request,
    StoreSettings,
};

impl Migration {
    fn backend(&self) -> &dyn Backend {
        match &self.backend {
            Active::Single(single) => single,
            Active::Both(both) => both,
        }
    }
}

#[async_trait]
impl Backend for Migration {
    fn kind(&self) -> &'static str {
        "migration"
    }

    async fn identity(&self) -> Result<String, Error> {
        let refusal = "two stores have no one identity: migrations do not nest";
        Err(Error::new(ErrorKind::Unsupported, refusal).at("migration", "identity"))
    }

    fn answers_at_once(&self) -> bool {
        self.backend().answers_at_once()
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.backend().guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        self.backend().try_acquire(request).await
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        self.backend().enqueue(request).await
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.backend().abandon(request).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        self.backend().renew(grants, sent).await
    }

    async fn release(&self, grant: &Grant, how: Release<'_>) -> Result<Released, Error> {
        self.backend().release(grant, how).await
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.backend().raise(grant, token).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.backend().inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let mut page = self.backend().list(from).await?;
        // They are no locks of the user's; `Fleet` shows them.
        page.locks.retain(|lock| !is_record(&lock.name));
        Ok(page)
    }

    async fn force_release(&self, name: &LockName) -> Result<Outcome, Error> {
        self.backend().force_release(name).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.backend().init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        self.backend().clock_difference_micros().await
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        self.backend().highest_token().await
    }

    async fn close(&self) {
        self.record.close().await;
        for store in &self.stores {
            store.close().await;
        }
    }
}
