//! One batch of renewals: which locks are in it, and what its answers do.

use std::{sync::Arc, time::Duration};

use super::schedule::{due_after_failure, due_next};
use crate::{
    EventKind, Grant, Instant, Renewal,
    client::{
        calls::{expire, lose},
        state::{ClientState, FailedRenewal, Held, validity},
    },
};

/// Returns those of the due locks that need a renewal. Ends those whose validity is over.
pub(super) fn select_renewals(
    state: &Arc<ClientState>,
    due: Vec<Arc<Held>>,
    now: Instant,
) -> Vec<Arc<Held>> {
    let mut renewals = due;
    let mut late = Vec::new();
    renewals.retain(|held| match held.valid_until() {
        None => false,
        Some(until) if now >= until => {
            expire(state, held, now);
            false
        }
        // `hold_at_most` ends the lock before a renewal could matter.
        Some(until) if until >= held.hold_until() => {
            state.renewer.reschedule(held, until);
            false
        }
        Some(until) => {
            // If an earlier renewal has no answer yet, it counts as failed.
            if held.count_failure() {
                late.push((Arc::clone(held), until.since(now)));
            }
            true
        }
    });
    let late: Vec<_> = late.iter().map(|(held, left)| FailedRenewal::late(held, *left)).collect();
    state.emit_renewals_failed(&late);
    renewals
}

/// Sends one batch and applies its answers.
pub(super) async fn renew(state: Arc<ClientState>, batch: Vec<Arc<Held>>) {
    for held in &batch {
        held.set_renewal_sent();
    }
    let grants: Vec<&Grant> = batch.iter().map(|held| &held.grant).collect();
    let sent = state.env.now();
    let answers = state.backend.renew(&grants, sent).await;
    debug_assert_eq!(answers.len(), batch.len(), "one answer per grant");
    let answers = batch.iter().zip(answers);
    let failed: Vec<_> =
        answers.filter_map(|(held, answer)| apply(&state, held, answer, sent)).collect();
    state.emit_renewals_failed(&failed);
}

/// Applies an answer. Returns a failure that was not counted before.
fn apply<'a>(
    state: &Arc<ClientState>,
    held: &'a Arc<Held>,
    answer: Renewal,
    sent: Instant,
) -> Option<FailedRenewal<'a>> {
    let now = state.env.now();
    match answer {
        Renewal::Renewed { from, lease } => {
            held.set_confirmed(from);
            let slack = held.valid_until().map_or(Duration::ZERO, |until| until.since(now));
            let renewed = Grant { from, lease, claim: None, ..held.grant.clone() };
            if held.extend(validity(&renewed), now) {
                state.renewer.reschedule(held, due_next(held, &renewed, &*state.env, now));
                if state.is_observed() {
                    let event = EventKind::Renewed { took: now.since(sent), slack, lease };
                    state.emit(&held.grant.name, Some(held), event);
                }
            } else {
                expire(state, held, now);
            }
        }
        Renewal::Lost(reason) => lose(state, held, reason),
        Renewal::Unknown(error) => {
            // Not a loss: the store may still keep the lease. Try again until validity ends.
            state.renewer.reschedule(held, due_after_failure(held, &*state.env, now));
            let remaining = held.valid_until().map_or(Duration::ZERO, |until| until.since(now));
            return held.count_failure().then_some(FailedRenewal { held, error, remaining });
        }
    }
    None
}
