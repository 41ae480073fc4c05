//! Attempts and requests for a queue entry, and their clean-up.

use std::sync::Arc;

use super::backoff::Backoff;
use crate::{
    Attempt, Enqueued, Error, Grant, ReleaseOptions, Request, Waiter,
    client::state::{Carried, ClientState},
    env::BoxFuture,
};

/// The log message of a release that is given up.
pub(super) const RELEASE_FAILED: &str =
    "release failed; the lock may stay held until its lease ends";

/// One attempt as an owned future.
pub(crate) async fn attempt(
    state: Arc<ClientState>,
    request: Request,
) -> (Request, Result<Attempt, Error>) {
    let result = state.backend.try_acquire(&request).await;
    (request, result)
}

/// One request for a queue entry as an owned future.
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
            Ok(Attempt::Granted(grant)) => release_unused(&state, grant, false).await,
            Err(error) if error.is_ambiguous() => abandon(&state, request).await,
            _ => {}
        }
    })
}

/// Cleans up after a request for a queue entry whose caller has gone.
pub(crate) fn after_enqueue(
    state: Arc<ClientState>,
    (request, result): (Request, Result<Enqueued, Error>),
) -> BoxFuture {
    Box::pin(async move {
        match result {
            Ok(Enqueued::Granted(grant)) => release_unused(&state, grant, false).await,
            Ok(Enqueued::Waiting(waiter, _)) => leave(&state, waiter, request).await,
            Err(error) if error.is_ambiguous() => abandon(&state, request).await,
            _ => {}
        }
    })
}

/// Abandons the owner of the request, whatever the answer is. For a request of which an earlier try
/// had no answer, and for the poll of a queue entry that is given up.
pub(crate) fn after_abandoned<T: Send + 'static>(
    state: Arc<ClientState>,
    (request, _): (Request, T),
) -> BoxFuture {
    Box::pin(async move { abandon(&state, request).await })
}

/// Cleans up after the next request that a release carried, if its waiter has gone.
pub(crate) async fn clean_up_carried(state: &Arc<ClientState>, carried: Carried) {
    let Carried { request, answer, doubtful } = carried;
    if let Some(answer) = answer.filter(|_| !doubtful) {
        after_enqueue(Arc::clone(state), (request, Ok(answer))).await;
    } else if doubtful {
        abandon(state, request).await;
    }
}

/// Releases a grant that never became a guard.
pub(crate) async fn release_unused(state: &Arc<ClientState>, grant: Grant, doubtful: bool) {
    if doubtful || grant.doubtful {
        return abandon_late_attempt(state, &grant).await;
    }
    let mut backoff = Backoff::until(state.env.now() + grant.lease);
    while let Err(error) = state.backend.release(&grant, ReleaseOptions::default()).await {
        if !error.is_retryable() || !backoff.pause(state).await {
            tracing::warn!(target: "leasehold", name = grant.name.as_str(), owner = %grant.owner, %error, "{RELEASE_FAILED}");
            return;
        }
    }
}

/// Stops the late requests of a grant whose attempt was sent more than once (S6). After the
/// release, a late request would find the lock free.
pub(crate) async fn abandon_late_attempt(state: &Arc<ClientState>, grant: &Grant) {
    let label = state.options.label.clone();
    let (name, owner, lease) = (grant.name.clone(), grant.owner, grant.lease);
    let request = Request::new(name, owner, label, lease, state.env.now());
    abandon(state, request.with_mode(grant.mode)).await;
}

/// Makes sure that nothing is left of a request whose outcome is unknown.
pub(crate) async fn abandon(state: &Arc<ClientState>, request: Request) {
    // A late request may come for as long as a call may take, even if the lease is shorter.
    let span = request.lease.max(state.options.call_timeout);
    let mut backoff = Backoff::until(state.env.now() + span);
    while let Err(error) = state.backend.abandon(&request).await {
        if !error.is_retryable() || !backoff.pause(state).await {
            tracing::warn!(target: "leasehold",
                name = request.name.as_str(), owner = %request.owner, %error,
                "clean-up failed; a lock or queue entry may stay until its lease ends"
            );
            return;
        }
    }
}

/// Gives a queue entry up.
pub(crate) async fn leave(state: &Arc<ClientState>, waiter: Box<dyn Waiter>, request: Request) {
    if waiter.leave().await.is_err() {
        abandon(state, request).await;
    }
}
