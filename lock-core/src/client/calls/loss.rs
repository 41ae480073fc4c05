//! How a held lock ends without a release: its validity ends, or the store no longer has it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{attempt::abandon_late_attempt, release::finish};
use crate::{
    Instant, LossReason,
    client::state::{ClientState, Held},
};

/// Whether the lock is still valid. If its validity has ended, this ends the lock, without help of
/// a task.
pub(crate) fn check(state: &Arc<ClientState>, held: &Arc<Held>) -> bool {
    held.valid_until().is_some() && check_at(state, held, state.env.now())
}

/// The same at `now`, an instant just read.
pub(crate) fn check_at(state: &Arc<ClientState>, held: &Arc<Held>, now: Instant) -> bool {
    let Some(until) = held.valid_until() else { return false };
    if now < until {
        return true;
    }
    // A renewal may have been confirmed between the two reads.
    match held.valid_until() {
        Some(until) if now < until => true,
        _ => {
            expire(state, held, now);
            false
        }
    }
}

/// The remaining validity.
pub(crate) fn remaining(state: &ClientState, held: &Held) -> Duration {
    let now = state.env.now();
    held.valid_until().map_or(Duration::ZERO, |until| until.since(now))
}

/// Ends a lock whose validity is over, with the reason that the clock and the last renewal give.
pub(crate) fn expire(state: &Arc<ClientState>, held: &Arc<Held>, now: Instant) {
    let reason = if now >= held.hold_until() {
        LossReason::HoldLimit
    } else if held.unanswered.load(Ordering::Relaxed) {
        LossReason::Unreachable
    } else {
        LossReason::Expired
    };
    lose(state, held, reason);
}

/// Ends a lock that is lost, notifies its holder, and frees what the store may still keep.
pub(crate) fn lose(state: &Arc<ClientState>, held: &Arc<Held>, reason: LossReason) {
    let _in_flight = ClientState::count(&**state);
    if !state.end_lost(held, reason) {
        return;
    }
    state.renewer.unregister(held);
    let grant = &held.grant;
    match reason {
        LossReason::TakenOver | LossReason::Gone => {
            state.queues(grant.mode).forget_carry(grant);
            if held.doubtful {
                let (shared, held) = (Arc::clone(state), Arc::clone(held));
                let late = async move { abandon_late_attempt(&shared, &held.grant).await };
                state.detach(Box::pin(late));
            }
        }
        _ => state.detach(Box::pin(finish(Arc::clone(state), Arc::clone(held)))),
    }
}
