//! Attempts, and requests for a place in the queue; and their clean-up if the caller has gone.

use std::sync::Arc;

use super::backoff::Backoff;
use crate::{
    Attempt, Enqueued, Error, Grant, ReleaseOptions, Request, Waiter,
    client::state::{Carried, ClientState},
    env::BoxFuture,
};

/// One attempt as an owned future.
pub(crate) async fn attempt(
    state: Arc<ClientState>,
    request: Request,
) -> (Request, Result<Attempt, Error>) {
    let result = state.backend.try_acquire(&request).await;
    (request, result)
}

/// One request for a place as an owned future.
pub(crate) async fn enqueue(
    state: Arc<ClientState>,
    request: Request,
) -> (Request, Result<Enqueued, Error>) {
    let result = state.backend.enqueue(&request).await;
    (request, result)
}

/// Cleans up after an attempt whose caller has gone.
pub(crate) fn after_attempt(
    state: Arc<ClientState>,
    (request, result): (Request, Result<Attempt, Error>),
) -> BoxFuture {
    Box::pin(async move {
        match result {
            Ok(Attempt::Granted(grant)) => give_back(&state, grant, false).await,
            Err(error) if error.is_ambiguous() => abandon(&state, request).await,
            _ => {}
        }
    })
}

/// Cleans up after a request for a place whose caller has gone.
pub(crate) fn after_enqueue(
    state: Arc<ClientState>,
    (request, result): (Request, Result<Enqueued, Error>),
) -> BoxFuture {
    Box::pin(async move {
        match result {
            Ok(Enqueued::Granted(grant)) => give_back(&state, grant, false).await,
            Ok(Enqueued::Waiting(waiter, _)) => leave(&state, waiter, request).await,
            Err(error) if error.is_ambiguous() => abandon(&state, request).await,
            _ => {}
        }
    })
}

/// The same where an earlier try of the request had no answer.
pub(crate) fn after_doubtful_enqueue(
    state: Arc<ClientState>,
    (request, _): (Request, Result<Enqueued, Error>),
) -> BoxFuture {
    Box::pin(async move { abandon(&state, request).await })
}

/// Gives a place up whose question had no answer in time, and what it may have been granted.
pub(crate) fn after_asking(
    state: Arc<ClientState>,
    (request, _): (Request, Result<Attempt, Error>),
) -> BoxFuture {
    Box::pin(async move { abandon(&state, request).await })
}

/// Gives up the answer that a release brought, where its waiter has gone.
pub(crate) async fn clean_up_carried(state: &Arc<ClientState>, carried: Carried) {
    let Carried { request, answer, doubtful } = carried;
    if let Some(answer) = answer.filter(|_| !doubtful) {
        after_enqueue(Arc::clone(state), (request, Ok(answer))).await;
    } else if doubtful {
        abandon(state, request).await;
    }
}

/// Releases a grant that never became a guard.
pub(crate) async fn give_back(state: &Arc<ClientState>, grant: Grant, doubtful: bool) {
    if doubtful || grant.doubtful {
        return abandon_late_attempt(state, &grant).await;
    }
    let mut backoff = Backoff::until(state.env.now() + grant.lease);
    while let Err(error) = state.backend.release(&grant, ReleaseOptions::default()).await {
        if !error.is_retryable() || !backoff.pause(state).await {
            tracing::warn!(name = grant.name.as_str(), owner = %grant.owner, %error, "release failed; the lease is the bound");
            return;
        }
    }
}

/// Stops the late requests of a grant whose attempt was tried more than once (S6): with the grant released,
/// one of them would find the lock free.
pub(crate) async fn abandon_late_attempt(state: &Arc<ClientState>, grant: &Grant) {
    let label = state.options.label.clone();
    let (name, owner, lease) = (grant.name.clone(), grant.owner, grant.lease);
    let request = Request::new(name, owner, label, lease, state.env.now());
    abandon(state, request.with_mode(grant.mode)).await;
}

/// Makes sure that nothing is left of a request whose outcome is unknown.
pub(crate) async fn abandon(state: &Arc<ClientState>, request: Request) {
    // A late request may come for as long as a call may take, also where the lease is shorter.
    let span = request.lease.max(state.options.call_timeout);
    let mut backoff = Backoff::until(state.env.now() + span);
    while let Err(error) = state.backend.abandon(&request).await {
        if !error.is_retryable() || !backoff.pause(state).await {
            tracing::warn!(name = request.name.as_str(), owner = %request.owner, %error, "clean-up failed; the lease is the bound");
            return;
        }
    }
}

/// Gives a place up.
pub(crate) async fn leave(state: &Arc<ClientState>, waiter: Box<dyn Waiter>, request: Request) {
    if waiter.leave().await.is_err() {
        abandon(state, request).await;
    }
}
