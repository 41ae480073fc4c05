//! Releases, repeated until the store has answered or the lease is over.

use std::{future::Future, sync::Arc};

use tokio::sync::oneshot;

use super::{
    attempt::{abandon, abandon_late_attempt, clean_up_carried},
    backoff::Backoff,
};
use crate::{
    Enqueued, Error, Instant, Mode, ReleaseOptions, ReleaseOutcome, Request,
    client::state::{Carried, ClientState, End, Held},
    env::BoxFuture,
};

/// A request that a release takes along.
struct Carry {
    request: Request,
    reply: oneshot::Sender<Carried>,
}

impl Carry {
    /// Hands the answer to those that wait. If they have gone, it comes back to be cleaned up.
    fn answer(self, answer: Option<Enqueued>, doubtful: bool) -> Option<Carried> {
        self.reply.send(Carried { request: self.request, answer, doubtful }).err()
    }
}

/// Releases a lock that its guard has given up, and hands the answer to a carried request to
/// the tasks of this process that wait for the name.
pub(crate) fn release(
    state: Arc<ClientState>,
    held: Arc<Held>,
    now: Instant,
) -> impl Future<Output = Result<ReleaseOutcome, Error>> + Send + 'static {
    // Taken here, since the future may be dropped before it is polled, with its runtime: the waiting tasks
    // learn of it by the end of this, and ask for themselves.
    let carry = state
        .queues(held.grant.mode)
        .carry(&held.grant)
        .map(|(wanted, reply)| Carry { request: state.request(&held.grant.name, &wanted), reply });
    async move {
        let result = repeat(&state, &held, now, carry).await;
        state.tell_released(&held, now.since(held.since()), result.as_ref().copied());
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
    let mut backoff = Backoff::until(now + held.stays);
    let mut doubtful = false;
    // After any failed try the request that went with it may have got a place.
    let mut unheard = false;
    let carried = carry.is_some();
    let result = loop {
        let options = ReleaseOptions { keep, next: carry.as_ref().map(|carry| &carry.request) };
        match state.backend.release(grant, options).await {
            Ok(released) => {
                if let Some(carry) = carry
                    && let Some(late) = carry.answer(released.next, unheard)
                {
                    // Boxed, here and below: rare paths are not to make every release large.
                    Box::pin(clean_up_carried(state, late)).await;
                }
                // It was held when the first try left: that one has released it.
                break Ok(if doubtful { ReleaseOutcome::Released } else { released.outcome });
            }
            Err(error) if error.is_retryable() && backoff.pause(state).await => {
                doubtful |= error.is_ambiguous();
                unheard = true;
                keep = held.keep(state.env.now());
            }
            Err(error) => {
                if let Some(carry) = carry {
                    // Dropping its sender lets the waiting tasks ask for themselves.
                    let request = carry.request;
                    drop(carry.reply);
                    Box::pin(abandon(state, request)).await;
                }
                break Err(error);
            }
        }
    };
    if !carried {
        // Otherwise the waiting tasks have just been answered.
        state.queues(Mode::Exclusive).poke(&grant.name);
    }
    state.queues(Mode::Shared).poke(&grant.name);
    if held.doubtful {
        Box::pin(abandon_late_attempt(state, grant)).await;
    }
    result
}

/// The same where no caller waits for the result.
pub(crate) fn finish(state: Arc<ClientState>, held: Arc<Held>) -> impl Future<Output = ()> + Send {
    let now = state.env.now();
    let release = release(state, Arc::clone(&held), now);
    async move {
        if let Err(error) = release.await {
            tracing::warn!(name = held.grant.name.as_str(), owner = %held.grant.owner, %error, "release failed; the lease is the bound");
        }
    }
}

/// Releases a held lock in the background, unless it has ended before.
pub(crate) fn let_go(state: &Arc<ClientState>, held: &Arc<Held>) {
    if held.valid_until().is_none() {
        return;
    }
    let _in_flight = ClientState::count(&**state);
    if held.finish(End::Released) {
        state.renewer.unregister(held);
        state.detach(Box::pin(finish(Arc::clone(state), Arc::clone(held))));
    }
}

/// Nothing is left to do after a release.
pub(crate) fn after_release(_: Arc<ClientState>, _: Result<ReleaseOutcome, Error>) -> BoxFuture {
    Box::pin(async {})
}
