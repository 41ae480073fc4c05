//! Phases `Old` and `New`: one of the two stores, as long as this process's record stands.

#![deny(clippy::missing_trait_methods)]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Error, FencingToken, Grant, Guarantees, Init, Instant,
    LockName, LockState, Page, ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, Signal,
    StoreSettings, Waiter,
};

use crate::{
    guarantees::{self, GuaranteeCache},
    record::Record,
};

/// One store.
#[derive(Debug)]
pub(crate) struct Single {
    pub(crate) store: Arc<dyn Backend>,
    pub(crate) record: Arc<Record>,
    pub(crate) guarantees: GuaranteeCache,
}

/// The rest of a lease that counts from `from` and is believed no longer than `until`.
fn capped(from: Instant, lease: Duration, until: Instant) -> Duration {
    lease.min(until.since(from))
}

/// A grant that is believed no longer than `until`. It counts from earlier: the store has set the
/// whole lease.
fn cap(mut grant: Grant, until: Instant) -> Grant {
    grant.from = grant.from.min(until - grant.lease);
    grant
}

impl Single {
    /// The request with the floor of this phase, and until when its answer may be believed.
    fn standing(&self, request: &Request) -> Result<(Request, Instant), Error> {
        let (until, floor) = self.record.standing()?;
        let mut request = request.clone();
        request.floor = request.floor.max(floor);
        Ok((request, until))
    }

    fn enqueued(&self, enqueued: Enqueued, until: Instant) -> Enqueued {
        match enqueued {
            Enqueued::Granted(grant) => Enqueued::Granted(cap(grant, until)),
            Enqueued::Waiting(waiter, busy) => {
                let record = Arc::clone(&self.record);
                Enqueued::Waiting(Box::new(StandingWaiter { waiter, record }), busy)
            }
            quarantined @ Enqueued::Quarantined(_) => quarantined,
        }
    }
}

#[async_trait]
impl Backend for Single {
    fn kind(&self) -> &'static str {
        self.store.kind()
    }

    async fn identity(&self) -> Result<String, Error> {
        self.store.identity().await
    }

    fn answers_at_once(&self) -> bool {
        self.store.answers_at_once()
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        guarantees::of_one(&*self.store, &self.guarantees)
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let (request, until) = self.standing(request)?;
        Ok(match self.store.try_acquire(&request).await? {
            Attempt::Granted(grant) => Attempt::Granted(cap(grant, until)),
            refused => refused,
        })
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let (request, until) = self.standing(request)?;
        Ok(self.enqueued(self.store.enqueue(&request).await?, until))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.store.abandon(request).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let until = match self.record.standing() {
            Ok((until, _)) => until,
            Err(error) => return grants.iter().map(|_| Renewal::Unknown(error.clone())).collect(),
        };
        let cap = |answer| match answer {
            Renewal::Renewed { from, lease } => {
                Renewal::Renewed { from, lease: capped(from, lease, until) }
            }
            other => other,
        };
        self.store.renew(grants, sent).await.into_iter().map(cap).collect()
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        // A process whose record is lost gives back, and asks for nothing more.
        let next = options.next.and_then(|next| self.standing(next).ok());
        let options = ReleaseOptions::new()
            .with_keep(options.keep)
            .with_next(next.as_ref().map(|(next, _)| next));
        let mut released = self.store.release(grant, options).await?;
        if let Some((_, until)) = next {
            released.next = released.next.map(|enqueued| self.enqueued(enqueued, until));
        }
        Ok(released)
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.store.raise(grant, token).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.store.inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.store.list(from).await
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        self.store.force_release(name).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.store.init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        self.store.clock_difference_micros().await
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        self.store.highest_token().await
    }

    async fn warnings(&self) -> Result<Vec<String>, Error> {
        self.store.warnings().await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

/// A waiter of the store, whose grants are believed no longer than the record.
#[derive(Debug)]
struct StandingWaiter {
    waiter: Box<dyn Waiter>,
    record: Arc<Record>,
}

#[async_trait]
impl Waiter for StandingWaiter {
    async fn next(&mut self) -> Signal {
        match self.waiter.next().await {
            Signal::Granted(mut grant) => match self.record.standing() {
                Ok((until, _)) => {
                    // The core counts it from an earlier instant than this one. Its confirmation is a
                    // renewal, which is capped too.
                    let left = until.since(self.record.now());
                    match &mut grant.claim {
                        Some(claim) => *claim = left.min(*claim),
                        None => grant = cap(grant, until),
                    }
                    Signal::Granted(grant)
                }
                // Asking tells why.
                Err(_) => Signal::Recheck,
            },
            other => other,
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.waiter.leave().await
    }
}
