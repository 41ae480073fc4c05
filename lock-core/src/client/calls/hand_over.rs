//! The calls of a lock that is handed over, which are repeated until the store has answered.

use std::sync::Arc;

use super::{
    attempt::{abandon, release_unused},
    backoff::Backoff,
    loss::{check, lose},
};
use crate::{
    Error, ErrorKind, Grant, Instant, Renewal, Request,
    client::state::{ClientState, Held, validity},
    env::BoxFuture,
};

/// Sets the lease of a held lock anew, so that all of it is left when the lock is detached. A
/// pushed grant is claimed by this.
pub(crate) async fn confirm(
    state: Arc<ClientState>,
    held: Arc<Held>,
    end: Instant,
) -> Result<(), Error> {
    let mut backoff = Backoff::until(end);
    loop {
        let sent = state.env.now();
        let answer = state.backend.renew(&[&held.grant], sent).await.pop();
        let error = match answer {
            Some(Renewal::Renewed { from, lease }) => {
                let renewed = Grant { from, lease, claim: None, ..held.grant.clone() };
                held.extend(validity(&renewed), state.env.now());
                return Ok(());
            }
            Some(Renewal::Lost(reason)) => {
                lose(&state, &held, reason);
                return Ok(());
            }
            Some(Renewal::Unknown(error)) => error,
            None => Error::new(ErrorKind::Unavailable, "the store did not answer the renewal"),
        };
        let again = error.is_retryable() && check(&state, &held);
        if !again || !backoff.pause(&state).await {
            return Err(error);
        }
    }
}

/// The clean-up after a confirmation, which needs none: the guard was dropped, too.
pub(crate) fn after_confirm(_: Arc<ClientState>, _: Result<(), Error>) -> BoxFuture {
    Box::pin(async {})
}

/// Gives a detached lock to the owner of `request`. After an error it repeats the call, with the
/// same owner, until `end`.
pub(crate) async fn reown(
    state: Arc<ClientState>,
    detached: Grant,
    mut request: Request,
    end: Instant,
) -> (Request, Result<Option<Grant>, Error>) {
    let mut backoff = Backoff::until(end);
    let mut doubtful = false;
    loop {
        request.sent = state.env.now();
        // After "not held" no late copy of the call succeeds: the former owner never has this grant
        // again.
        let error = match state.backend.reown(&detached, &request).await {
            Ok(answer) => return (request, Ok(answer)),
            Err(error) => error,
        };
        doubtful |= error.is_ambiguous();
        if !error.is_retryable() || !backoff.pause(&state).await {
            let error = match doubtful && !error.is_ambiguous() {
                true => {
                    let message = "it is unknown whether the lock was attached";
                    Error::new(ErrorKind::OutcomeUnknown, message).with_source(error)
                }
                false => error,
            };
            return (request, Err(error));
        }
    }
}

/// Cleans up after an attach whose caller has gone.
pub(crate) fn after_reown(
    state: Arc<ClientState>,
    (request, result): (Request, Result<Option<Grant>, Error>),
) -> BoxFuture {
    Box::pin(async move {
        match result {
            Ok(Some(grant)) => release_unused(&state, grant, false).await,
            Err(error) if error.is_ambiguous() => abandon(&state, request).await,
            _ => {}
        }
    })
}
