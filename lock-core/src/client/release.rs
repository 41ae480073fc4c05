//! Giving back: releases and clean-ups, repeated until the store has answered or the lease is over.

use std::{future::Future, sync::Arc, time::Duration};

use super::{held::Held, inner::Inner, waiting::Carry};
use crate::{
    Attempt, Enqueued, Error, Grant, Instant, Outcome, Release, Request, Turn,
    env::{BoxFuture, jittered},
};

/// Pauses between repeats, growing from 5 ms to 1 s with jitter, until `end`.
pub(crate) struct Backoff {
    pause: Duration,
    end: Instant,
}

impl Backoff {
    pub(crate) fn until(end: Instant) -> Self {
        Self { pause: Duration::from_millis(5), end }
    }

    /// Waits for the next attempt; `false` when there is no time for one.
    pub(crate) async fn pause(&mut self, inner: &Inner) -> bool {
        let pause = jittered(&*inner.env, self.pause);
        if inner.env.now() + pause >= self.end {
            return false;
        }
        inner.env.sleep(pause).await;
        self.pause = (self.pause * 2).min(Duration::from_secs(1));
        true
    }
}

/// Releases a lock that its guard has given up, and hands the answer to a carried request to
/// whoever waits in this process.
pub(crate) fn release(
    inner: Arc<Inner>,
    held: Arc<Held>,
    now: Instant,
) -> impl Future<Output = Result<Outcome, Error>> + Send + 'static {
    // Taken here, since the future may be dropped before it is polled, with its runtime: whoever waits
    // learns of it by the end of this, and asks for itself.
    let carry = inner.waiting.carry(&inner, &held.grant);
    async move { carried(&inner, &held, now, carry).await }
}

async fn carried(
    inner: &Arc<Inner>,
    held: &Held,
    now: Instant,
    carry: Option<Carry>,
) -> Result<Outcome, Error> {
    let grant = &held.grant;
    let mut keep = held.keep(now);
    let mut backoff = Backoff::until(now + held.stays);
    let mut doubtful = false;
    // Whatever a failed try says of the lock, the request that went with it may have got a place.
    let mut unheard = false;
    let carried = carry.is_some();
    let result = loop {
        let how = Release { keep, next: carry.as_ref().map(|carry| &carry.request) };
        match inner.backend.release(grant, how).await {
            Ok(released) => {
                if let Some(carry) = carry
                    && let Some(late) = carry.answer(released.next, unheard)
                {
                    // Boxed, here and below: what seldom happens is not to make every release large.
                    Box::pin(late.clean_up(inner)).await;
                }
                // It was held when the first try left: that one has released it.
                break Ok(if doubtful { Outcome::Released } else { released.outcome });
            }
            Err(error) if error.is_retryable() && backoff.pause(inner).await => {
                doubtful |= error.is_ambiguous();
                unheard = true;
                keep = held.keep(inner.env.now());
            }
            Err(error) => {
                if let Some(carry) = carry {
                    let request = carry.give_up();
                    Box::pin(abandon(inner, request)).await;
                }
                break Err(error);
            }
        }
    };
    if !carried {
        // Otherwise whoever waits here has just been answered.
        inner.waiting.poke(&grant.name);
    }
    if held.doubtful {
        Box::pin(bury(inner, grant)).await;
    }
    result
}

/// Stops the ghosts of a grant whose attempt was tried more than once (S6): with the grant released,
/// a late one would find the lock free.
pub(crate) async fn bury(inner: &Arc<Inner>, grant: &Grant) {
    let label = inner.options.label.clone();
    let (name, owner, lease) = (grant.name.clone(), grant.owner, grant.lease);
    abandon(inner, Request::new(name, owner, label, lease, inner.env.now())).await;
}

/// The same where nobody waits for the result.
pub(crate) fn finish(inner: Arc<Inner>, held: Arc<Held>) -> impl Future<Output = ()> + Send {
    let now = inner.env.now();
    let release = release(inner, Arc::clone(&held), now);
    async move {
        if let Err(error) = release.await {
            tracing::warn!(name = %held.grant.name, owner = %held.grant.owner, %error, "release failed; the lease is the bound");
        }
    }
}

/// Releases a grant that never became a guard.
pub(crate) async fn give_back(inner: &Arc<Inner>, grant: Grant, doubtful: bool) {
    if doubtful || grant.doubtful {
        return bury(inner, &grant).await;
    }
    let mut backoff = Backoff::until(inner.env.now() + grant.lease);
    while let Err(error) = inner.backend.release(&grant, Release::default()).await {
        if !error.is_retryable() || !backoff.pause(inner).await {
            tracing::warn!(name = %grant.name, owner = %grant.owner, %error, "release failed; the lease is the bound");
            return;
        }
    }
}

/// Makes sure that nothing is left of a request whose outcome is unknown.
pub(crate) async fn abandon(inner: &Arc<Inner>, request: Request) {
    // A ghost may come for as long as a call may take, also where the lease is shorter.
    let span = request.lease.max(inner.options.call_timeout);
    let mut backoff = Backoff::until(inner.env.now() + span);
    while let Err(error) = inner.backend.abandon(&request).await {
        if !error.is_retryable() || !backoff.pause(inner).await {
            tracing::warn!(name = %request.name, owner = %request.owner, %error, "clean-up failed; the lease is the bound");
            return;
        }
    }
}

/// Gives a place up.
pub(crate) async fn leave(inner: &Arc<Inner>, turn: Box<dyn Turn>, request: Request) {
    if turn.leave().await.is_err() {
        abandon(inner, request).await;
    }
}

/// Cleans up after an attempt whose caller has gone.
pub(crate) fn after_attempt(
    inner: Arc<Inner>,
    (request, result): (Request, Result<Attempt, Error>),
) -> BoxFuture {
    Box::pin(async move {
        match result {
            Ok(Attempt::Granted(grant)) => give_back(&inner, grant, false).await,
            Err(error) if error.is_ambiguous() => abandon(&inner, request).await,
            _ => {}
        }
    })
}

/// Cleans up after a place that was asked for in vain.
pub(crate) fn after_enqueue(
    inner: Arc<Inner>,
    (request, result): (Request, Result<Enqueued, Error>),
) -> BoxFuture {
    Box::pin(async move {
        match result {
            Ok(Enqueued::Granted(grant)) => give_back(&inner, grant, false).await,
            Ok(Enqueued::Waiting(turn, _)) => leave(&inner, turn, request).await,
            Err(error) if error.is_ambiguous() => abandon(&inner, request).await,
            _ => {}
        }
    })
}

/// The same where an earlier try of the request had no answer.
pub(crate) fn after_doubtful_enqueue(
    inner: Arc<Inner>,
    (request, _): (Request, Result<Enqueued, Error>),
) -> BoxFuture {
    Box::pin(async move { abandon(&inner, request).await })
}

/// Gives a place up whose question had no answer in time, and what it may have been granted.
pub(crate) fn after_asking(
    inner: Arc<Inner>,
    (request, _): (Request, Result<Attempt, Error>),
) -> BoxFuture {
    Box::pin(async move { abandon(&inner, request).await })
}

/// Nothing is left to do after a release.
pub(crate) fn after_release(_: Arc<Inner>, _: Result<Outcome, Error>) -> BoxFuture {
    Box::pin(async {})
}

/// One attempt as an owned future.
pub(crate) async fn attempt(
    inner: Arc<Inner>,
    request: Request,
) -> (Request, Result<Attempt, Error>) {
    let result = inner.backend.try_acquire(&request).await;
    (request, result)
}

/// One request for a place as an owned future.
pub(crate) async fn enqueue(
    inner: Arc<Inner>,
    request: Request,
) -> (Request, Result<Enqueued, Error>) {
    let result = inner.backend.enqueue(&request).await;
    (request, result)
}
