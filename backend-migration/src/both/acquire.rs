//! Phase `Both`: takes a lock in two stores, in an order that all processes share.
//!
//! A process that holds the lock in the first store may wait for the second. No process that holds
//! it in the second waits for the first. So there is no deadlock.

use std::sync::Arc;

use futures_util::future::join;
use lock_core::{
    Attempt, Backend, Busy, Enqueued, Error, ErrorKind, FencingToken, Grant, Quarantined,
    ReleaseOptions, Renewal, Request, Waiter,
};

use super::{
    pair::Pair,
    waiter::{BothWaiter, Entries, Entry},
};
use crate::tunables::RENEW_AFTER;

/// Two stores as one.
#[derive(Debug)]
pub(crate) struct Both {
    /// In the order of acquisition.
    pub(super) stores: [Arc<dyn Backend>; 2],
    entries: Arc<Entries>,
}

/// The result of an attempt in the second store while the first was held.
enum Second {
    Granted(Grant),
    /// The first is still held.
    Waiting(Grant, Option<Box<dyn Waiter>>, Busy),
    /// The first was released.
    Quarantined(Quarantined),
}

/// Why an attempt failed. Its grants were released, or the outcome of that is unknown too.
struct Failure {
    error: Error,
    /// A release of this owner may still arrive. The owner must never acquire again, since that
    /// release would free the new grant.
    owner_used_up: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, owner_used_up: false }
    }
}

/// The request for the second store. Its token must not be below that of the first, so that mostly
/// only the first must be raised.
fn above(request: &Request, first: FencingToken) -> Request {
    let floor = FencingToken::new(first.get().saturating_sub(1)).unwrap_or(FencingToken::MAX);
    let mut request = request.clone();
    request.floor = request.floor.max(floor);
    request
}

impl Both {
    /// The two stores, in the order of acquisition.
    pub(crate) fn new(stores: [Arc<dyn Backend>; 2]) -> Self {
        Self { stores, entries: Arc::default() }
    }

    pub(super) async fn attempt(&self, request: &Request) -> Result<Attempt, Error> {
        if let Some(entry) = self.entries.get(request.owner) {
            return self.advance(request, &entry).await;
        }
        let first = match self.stores[0].try_acquire(request).await? {
            Attempt::Granted(first) => first,
            refused => return Ok(refused),
        };
        match self.take_second(request, first).await.map_err(|failure| failure.error)? {
            Second::Granted(grant) => Ok(Attempt::Granted(grant)),
            Second::Quarantined(quarantined) => Ok(Attempt::Quarantined(quarantined)),
            // There is no waiter that could keep the first, so it is released.
            Second::Waiting(first, _, busy) => {
                self.release_one(0, &first).await.map_err(|failure| failure.error)?;
                Ok(Attempt::Busy(busy))
            }
        }
    }

    pub(super) async fn queue(&self, request: &Request) -> Result<Enqueued, Error> {
        let first = match self.stores[0].enqueue(request).await? {
            Enqueued::Granted(first) => first,
            Enqueued::Waiting(waiter, busy) => {
                let entry = Entry::first(waiter);
                return Ok(Enqueued::Waiting(self.waiter(request, entry), busy));
            }
            quarantined @ Enqueued::Quarantined(_) => return Ok(quarantined),
        };
        match self.queue_second(request, first).await {
            Ok(Second::Granted(grant)) => Ok(Enqueued::Granted(grant)),
            Ok(Second::Quarantined(quarantined)) => Ok(Enqueued::Quarantined(quarantined)),
            Ok(Second::Waiting(first, waiter, busy)) => {
                let busy = poll_to_renew(busy, &first);
                Ok(Enqueued::Waiting(self.waiter(request, Entry::second(first, waiter)), busy))
            }
            // A lost entry makes the core clean up and use a new owner. An error would not.
            Err(failure) if failure.owner_used_up => {
                let entry = Entry::lost(failure.error.to_string());
                let retry_after = self.stores[0].guarantees().longest_poll;
                let busy = Busy::new(None, FencingToken::ZERO, retry_after);
                Ok(Enqueued::Waiting(self.waiter(request, entry), busy))
            }
            Err(failure) => Err(failure.error),
        }
    }

    fn waiter(&self, request: &Request, entry: Entry) -> Box<BothWaiter> {
        let entry = Arc::new(entry);
        self.entries.insert(request.owner, Arc::clone(&entry));
        Box::new(BothWaiter::new(
            self.stores.clone(),
            Arc::clone(&self.entries),
            request.clone(),
            entry,
        ))
    }

    /// The attempt of an owner that waits: in the first store or, if it holds that, in the second.
    async fn advance(&self, request: &Request, entry: &Entry) -> Result<Attempt, Error> {
        let second = match entry.held()? {
            None => match self.stores[0].try_acquire(request).await? {
                Attempt::Granted(first) => self.queue_second(request, first).await,
                refused => return Ok(refused),
            },
            Some(first) => match self.renew_first(request, first).await {
                Ok(first) => self.take_second(request, first).await,
                Err(failure) => Err(failure),
            },
        };
        match second {
            Ok(Second::Granted(grant)) => {
                entry.finish();
                Ok(Attempt::Granted(grant))
            }
            Ok(Second::Waiting(first, waiter, busy)) => {
                let busy = poll_to_renew(busy, &first);
                entry.wait_for_second(first, waiter);
                Ok(Attempt::Busy(busy))
            }
            Ok(Second::Quarantined(quarantined)) => {
                entry.lose(format!("the second store grants nothing: {}", quarantined.why));
                Ok(Attempt::Quarantined(quarantined))
            }
            Err(failure) => {
                entry.lose(failure.error.to_string());
                Err(failure.error)
            }
        }
    }

    /// Renews the first store's grant while the second is waited for, if a renewal is due.
    async fn renew_first(&self, request: &Request, mut first: Grant) -> Result<Grant, Failure> {
        if request.sent.since(first.from) < first.lease / RENEW_AFTER {
            return Ok(first);
        }
        match self.stores[0].renew(&[&first], request.sent).await.pop() {
            Some(Renewal::Renewed { from, lease }) => {
                (first.from, first.lease) = (from, lease);
                Ok(first)
            }
            Some(Renewal::Lost(why)) => {
                let message = format!("the first store's lease ended while waiting: {why}");
                Err(Error::new(ErrorKind::Unavailable, message).on(&request.name).into())
            }
            // The lease counts from the last renewal that was answered.
            Some(Renewal::Unknown(_)) | None => Ok(first),
        }
    }

    async fn take_second(&self, request: &Request, first: Grant) -> Result<Second, Failure> {
        match self.stores[1].try_acquire(&above(request, first.token)).await {
            Ok(Attempt::Granted(second)) => self.join(request, [first, second]).await,
            Ok(Attempt::Busy(busy)) => Ok(Second::Waiting(first, None, busy)),
            Ok(Attempt::Quarantined(quarantined)) => {
                self.release_one(0, &first).await?;
                Ok(Second::Quarantined(quarantined))
            }
            Err(error) => Err(self.second_failed(request, &first, error).await),
        }
    }

    async fn queue_second(&self, request: &Request, first: Grant) -> Result<Second, Failure> {
        match self.stores[1].enqueue(&above(request, first.token)).await {
            Ok(Enqueued::Granted(second)) => self.join(request, [first, second]).await,
            Ok(Enqueued::Waiting(waiter, busy)) => Ok(Second::Waiting(first, Some(waiter), busy)),
            Ok(Enqueued::Quarantined(quarantined)) => {
                self.release_one(0, &first).await?;
                Ok(Second::Quarantined(quarantined))
            }
            Err(error) => Err(self.second_failed(request, &first, error).await),
        }
    }

    /// Handles an error of the second store: releases the first, so that processes that use only
    /// the first are not blocked.
    async fn second_failed(&self, request: &Request, first: &Grant, error: Error) -> Failure {
        if let Err(failure) = self.release_one(0, first).await {
            return failure;
        }
        // The floor that the second store refuses is the token of the first.
        let by_clock = request.floor < first.token && error.kind() == ErrorKind::InvalidInput;
        if by_clock { self.clock_error(1, error).into() } else { error.into() }
    }

    /// The error if a token of one store leads the clock of the other (`behind`) by more than is
    /// allowed.
    fn clock_error(&self, behind: usize, error: Error) -> Error {
        let [ahead, behind] = [1 - behind, behind].map(|side| self.stores[side].kind());
        let message = format!(
            "a token of the {ahead} store leads the clock of the {behind} store by more than its \
             longest lease; the clocks of both stores must differ by less"
        );
        Error::new(ErrorKind::Config, message).with_source(error).at("migration", "acquire")
    }

    /// Combines both grants. Raises the lower token to the higher one before the client sees it.
    async fn join(&self, request: &Request, mut grants: [Grant; 2]) -> Result<Second, Failure> {
        let token = grants[0].token.max(grants[1].token);
        for side in 0..2 {
            if grants[side].token == token {
                continue;
            }
            if let Err(error) = self.stores[side].raise(&grants[side], token).await {
                let second = self.release_one(1, &grants[1]).await;
                self.release_one(0, &grants[0]).await?;
                second?;
                return Err(match error.kind() {
                    ErrorKind::InvalidInput => self.clock_error(side, error).into(),
                    ErrorKind::NotHeld => {
                        let message =
                            "the lease in one store ended during the attempt in the other";
                        let ended = Error::new(ErrorKind::Unavailable, message);
                        ended.with_source(error).at("migration", "acquire").into()
                    }
                    _ => error.into(),
                });
            }
            grants[side].token = token;
        }
        Ok(Second::Granted(Pair::together(request, token, grants)))
    }

    /// Releases what a failed attempt has taken in one store.
    async fn release_one(&self, side: usize, grant: &Grant) -> Result<(), Failure> {
        let unknown = |message: &str| {
            let unknown = Error::new(ErrorKind::OutcomeUnknown, message);
            unknown.at("migration", "acquire").on(&grant.name)
        };
        match self.stores[side].release(grant, ReleaseOptions::default()).await {
            // The core repeats the attempt, or abandons the owner.
            Ok(_) if grant.doubtful => {
                Err(unknown("one store may still carry out an earlier try of the attempt").into())
            }
            Ok(_) => Ok(()),
            Err(error) => {
                let owner_used_up = error.is_ambiguous();
                let error = unknown("one store may have kept a grant that the other refused")
                    .with_source(error);
                Err(Failure { error, owner_used_up })
            }
        }
    }

    /// Abandons the owner in both stores, even if one of them fails.
    pub(super) async fn abandon_both(&self, request: &Request) -> Result<(), Error> {
        if let Some(entry) = self.entries.remove(request.owner) {
            entry.lose("its owner was abandoned".into());
        }
        let [first, second] = &self.stores;
        let (first, second) = join(first.abandon(request), second.abandon(request)).await;
        first.and(second)
    }
}

/// Shortens the pause between polls, because the waiter's polls also renew the lease in the first
/// store.
fn poll_to_renew(mut busy: Busy, first: &Grant) -> Busy {
    busy.retry_after = busy.retry_after.min(first.lease / RENEW_AFTER);
    busy
}
