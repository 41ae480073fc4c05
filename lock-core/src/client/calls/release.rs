//! Releases, which are repeated until the store has answered or the lease is over.

use std::{future::Future, sync::Arc};

use tokio::sync::oneshot;

use super::{
    attempt::{RELEASE_FAILED, abandon, abandon_late_attempt, clean_up_carried},
    backoff::Backoff,
};
use crate::{
    Enqueued, Error, Instant, Mode, ReleaseOptions, ReleaseOutcome, Request,
    client::state::{Carried, ClientState, End, Held},
    env::BoxFuture,
};

/// The next request of this process, which a release carries.
struct Carry {
    request: Request,
    reply: oneshot::Sender<Carried>,
}

impl Carry {
    /// Sends the answer to the queue worker. If the worker has gone, the answer comes back to be
    /// cleaned up.
    fn answer(self, answer: Option<Enqueued>, doubtful: bool) -> Option<Carried> {
        self.reply.send(Carried { request: self.request, answer, doubtful }).err()
    }
}

/// Releases a lock that its guard has given up, and sends the answer to the carried request to the
/// queue worker of the name.
pub(crate) fn release(
    state: Arc<ClientState>,
    held: Arc<Held>,
    now: Instant,
) -> impl Future<Output = Result<ReleaseOutcome, Error>> + Send + 'static {
    // Taken before the first poll: if the runtime ends and drops this future unpolled, the worker
    // sees that `reply` is closed, and makes its own request.
    let carry = state
        .queues(held.grant.mode)
        .carry(&held.grant)
        .map(|(wanted, reply)| Carry { request: state.request(&held.grant.name, &wanted), reply });
    async move {
        let result = repeat(&state, &held, now, carry).await;
        state.emit_released(&held, now.since(held.since()), result.as_ref().copied());
        result
    }
}

async fn repeat(
    state: &Arc<ClientState>,
    held: &Held,
    now: Instant,
    carry: Option<Carry>,
) -> Result<ReleaseOutcome, Error> {
    let grant = &held.grant;
    let mut keep = held.keep(now);
    let mut backoff = Backoff::until(now + held.store_keeps);
    let mut doubtful = false;
    // After any failed try, the carried request may have a queue entry.
    let mut retried = false;
    let carried = carry.is_some();
    let result = loop {
        let options = ReleaseOptions { keep, next: carry.as_ref().map(|carry| &carry.request) };
        match state.backend.release(grant, options).await {
            Ok(released) => {
                if let Some(carry) = carry
                    && let Some(late) = carry.answer(released.next, retried)
                {
                    // Boxed, here and below, so that rare paths do not make every release future
                    // large.
                    Box::pin(clean_up_carried(state, late)).await;
                }
                // The lock was held when the first try was sent, so that try has released it.
                break Ok(if doubtful { ReleaseOutcome::Released } else { released.outcome });
            }
            Err(error) if error.is_retryable() && backoff.pause(state).await => {
                doubtful |= error.is_ambiguous();
                retried = true;
                keep = held.keep(state.env.now());
            }
            Err(error) => {
                if let Some(carry) = carry {
                    // Dropping the sender lets the worker make its own request.
                    let request = carry.request;
                    drop(carry.reply);
                    Box::pin(abandon(state, request)).await;
                }
                break Err(error);
            }
        }
    };
    if !carried {
        // If there was a carried request, the worker has just got its answer.
        state.queues(Mode::Exclusive).request_poll(&grant.name);
    }
    state.queues(Mode::Shared).request_poll(&grant.name);
    if held.doubtful {
        Box::pin(abandon_late_attempt(state, grant)).await;
    }
    result
}

/// The same, if no caller waits for the result.
pub(crate) fn finish(state: Arc<ClientState>, held: Arc<Held>) -> impl Future<Output = ()> + Send {
    let now = state.env.now();
    let release = release(state, Arc::clone(&held), now);
    async move {
        if let Err(error) = release.await {
            tracing::warn!(target: "leasehold", name = held.grant.name.as_str(), owner = %held.grant.owner, %error, "{RELEASE_FAILED}");
        }
    }
}

/// Releases a held lock in the background, unless it has ended before.
pub(crate) fn release_in_background(state: &Arc<ClientState>, held: &Arc<Held>) {
    if held.valid_until().is_none() {
        return;
    }
    let _in_flight = ClientState::count(&**state);
    if held.finish(End::Released) {
        state.renewer.unregister(held);
        state.detach(Box::pin(finish(Arc::clone(state), Arc::clone(held))));
    }
}

/// The clean-up after a release, which needs none.
pub(crate) fn after_release(_: Arc<ClientState>, _: Result<ReleaseOutcome, Error>) -> BoxFuture {
    Box::pin(async {})
}
