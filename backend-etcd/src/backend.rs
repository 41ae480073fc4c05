//! The trait, in terms of the steps.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant, Guarantees, Init,
    Instant, LockName, LockState, Outcome, Page, Release, Released, Renewal, Request,
    StoreSettings,
};

pub(crate) use crate::store::EtcdBackend;
use crate::{ledger::Credit, place::Held};

/// How often the first that waits asks, behind the push; whoever stands further back asks more seldom.
pub(crate) const POLL: Duration = Duration::from_millis(500);
/// From this distance on the pauses grow no more.
pub(crate) const FAR: u32 = 4;
/// The longest pause.
pub(crate) const LONGEST_POLL: Duration = POLL.saturating_mul(FAR);

/// Adds to errors which operation failed.
trait During<T> {
    fn during(self, operation: &'static str) -> Result<T, Error>;
}

impl<T> During<T> for Result<T, Error> {
    fn during(self, operation: &'static str) -> Self {
        self.map_err(|error| error.at("etcd", operation))
    }
}

/// What a grant of ours knows.
fn held(grant: &Grant) -> Option<&Held> {
    grant.state.as_ref().and_then(|state| state.downcast_ref())
}

fn foreign() -> Error {
    Error::new(ErrorKind::InvalidInput, "the grant is not of this backend")
}

impl EtcdBackend {
    async fn renewed(&self, grant: &Grant, sent: Instant) -> Renewal {
        let Some(held) = held(grant) else { return Renewal::Unknown(foreign()) };
        match self.keepalives.ask(held.lease.id).await.during("renew") {
            Ok(Credit::Alive { from, seconds }) => {
                match self.is_there(held).await.during("renew") {
                    Ok(true) => Renewal::Renewed {
                        from: from.min(sent),
                        lease: Duration::from_secs(seconds),
                    },
                    Ok(false) => Renewal::Lost(self.why_lost(grant).await),
                    Err(error) => Renewal::Unknown(error),
                }
            }
            Ok(_) => Renewal::Lost(self.why_lost(grant).await),
            Err(error) => Renewal::Unknown(error),
        }
    }
}

#[async_trait]
impl Backend for EtcdBackend {
    fn kind(&self) -> &'static str {
        "etcd"
    }

    async fn identity(&self) -> Result<String, Error> {
        self.name_of_store().await.during("identity")
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.promised()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        self.attempt(request).await.during("acquire")
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        self.queue(request).await.during("enqueue")
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.bury(request).await.during("abandon")
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        // All keepalives are on their way before the first is answered.
        join_all(grants.iter().map(|grant| self.renewed(grant, sent))).await
    }

    async fn release(&self, grant: &Grant, how: Release<'_>) -> Result<Released, Error> {
        let held = held(grant).ok_or_else(foreign).during("release")?;
        let (Some(next), None) = (how.next, how.keep) else {
            return Ok(Released::plain(self.give_back(held, how.keep).await.during("release")?));
        };
        self.hand_on(held, next).await.during("release")
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let held = held(grant).ok_or_else(foreign).during("raise")?;
        self.check_token(token).during("raise")?;
        if self.lift_token(held, token).await.during("raise")? {
            return Ok(());
        }
        let message = "the grant whose token was to be raised is gone";
        Err(Error::new(ErrorKind::NotHeld, message).at("etcd", "raise").on(&grant.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.state(name).await.during("inspect")
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.page(from).await.during("list")
    }

    async fn force_release(&self, name: &LockName) -> Result<Outcome, Error> {
        self.force(name).await.during("force-release")
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_reset_tokens().during("init")?;
        self.set_up(init).await.during("init")
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        // etcd shows no clock: that of this machine stands in for it.
        Ok(None)
    }

    async fn close(&self) {
        self.watch.stop();
        self.spares.close().await;
    }
}
