//! Phases `Old` and `New`: one of the two stores, as long as this process may believe its record
//! there.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Enqueued, Error, Grant, Instant, LockName, RecordRead, RecordWrite,
    ReleaseOptions, Released, Renewal, Request, Signal, Waiter, WriteOutcome,
};

use crate::{
    record::OwnRecord,
    records::{self, Other},
};

/// The only store that a process in an end phase uses.
#[derive(Debug)]
pub(crate) struct EndPhase {
    pub(crate) store: Arc<dyn Backend>,
    /// The other store of the migration, which may have records of names.
    pub(crate) other: Other,
    pub(crate) record: Arc<OwnRecord>,
}

/// The rest of a lease that counts from `from` and is believed no longer than `until`.
fn capped(from: Instant, lease: Duration, until: Instant) -> Duration {
    lease.min(until.since(from))
}

/// A grant that is believed no longer than `until`. It counts from an earlier instant instead of
/// having a shorter lease, since the store has set the whole lease.
fn cap(mut grant: Grant, until: Instant) -> Grant {
    grant.from = grant.from.min(until - grant.lease);
    grant
}

impl EndPhase {
    /// The request with the floor of this phase, and the instant until which its answer may be
    /// believed.
    fn with_floor(&self, request: &Request) -> Result<(Request, Instant), Error> {
        let (until, floor) = self.record.belief()?;
        let mut request = request.clone();
        request.floor = request.floor.max(floor);
        Ok((request, until))
    }

    fn enqueued(&self, enqueued: Enqueued, until: Instant) -> Enqueued {
        match enqueued {
            Enqueued::Granted(grant) => Enqueued::Granted(cap(grant, until)),
            Enqueued::Waiting(waiter, busy) => {
                let record = Arc::clone(&self.record);
                Enqueued::Waiting(Box::new(CappedWaiter { waiter, record }), busy)
            }
            quarantined @ Enqueued::Quarantined(_) => quarantined,
        }
    }

    pub(crate) async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let (request, until) = self.with_floor(request)?;
        Ok(match self.store.try_acquire(&request).await? {
            Attempt::Granted(grant) => Attempt::Granted(cap(grant, until)),
            refused => refused,
        })
    }

    pub(crate) async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let (request, until) = self.with_floor(request)?;
        Ok(self.enqueued(self.store.enqueue(&request).await?, until))
    }

    pub(crate) async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let until = match self.record.belief() {
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

    pub(crate) async fn release(
        &self,
        grant: &Grant,
        options: ReleaseOptions<'_>,
    ) -> Result<Released, Error> {
        // A process that has lost its record still releases, but its next request is not sent.
        let next = options.next.and_then(|next| self.with_floor(next).ok());
        let options = ReleaseOptions::new()
            .with_keep(options.keep)
            .with_next(next.as_ref().map(|(next, _)| next));
        let mut released = self.store.release(grant, options).await?;
        if let Some((_, until)) = next {
            released.next = released.next.map(|enqueued| self.enqueued(enqueued, until));
        }
        Ok(released)
    }
}

impl EndPhase {
    pub(crate) async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        records::read_from_one(&*self.store, &self.other, name).await
    }

    /// A process that has lost its record may be two phases away from another, which holds the same
    /// lock in the other store. So it writes nothing.
    pub(crate) async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        self.record.belief()?;
        self.store.write_record(grant, write).await
    }
}

/// A waiter of the store whose grants are believed no longer than the record.
#[derive(Debug)]
struct CappedWaiter {
    waiter: Box<dyn Waiter>,
    record: Arc<OwnRecord>,
}

#[async_trait]
impl Waiter for CappedWaiter {
    async fn next(&mut self) -> Signal {
        match self.waiter.next().await {
            Signal::Granted(mut grant) => match self.record.belief() {
                Ok((until, _)) => {
                    // The core counts the claim from an earlier instant than this one. It confirms
                    // the claim by a renewal, which is capped too.
                    let left = until.since(self.record.now());
                    match &mut grant.claim {
                        Some(claim) => *claim = left.min(*claim),
                        None => grant = cap(grant, until),
                    }
                    Signal::Granted(grant)
                }
                // The attempt that follows returns the error.
                Err(_) => Signal::Recheck,
            },
            other => other,
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.waiter.leave().await
    }
}
