//! When a held lock is to be renewed, from its grant on.

use std::sync::Arc;

use crate::{
    Env, Grant, Instant,
    client::state::{ClientState, Held, Wanted},
    env::{jittered, spread},
    tunables::{
        CONFIRM_PART, LONGEST_RETRY_PAUSE, RENEWAL_PART, RENEWAL_RETRY_PART, RESEND_PART,
        SHORTEST_RETRY_PAUSE,
    },
};

/// When to renew a grant that counts from `from`: after a third of its lease, so that two renewals
/// may fail, or up to a quarter of that earlier, so that clients that started together do not stay
/// together.
pub(super) fn due(grant: &Grant, from: Instant) -> Instant {
    from + spread(grant.owner.to_bits(), grant.lease / RENEWAL_PART)
}

/// When to renew a renewed grant. If it counts from so long ago that it would be due at once, the
/// store confirms late, and is not asked without a pause.
pub(super) fn due_next(held: &Held, renewed: &Grant, env: &dyn Env, now: Instant) -> Instant {
    let next = due(renewed, renewed.from);
    if next > now { next } else { due_after_failure(held, env, now) }
}

/// When a lock is due again after its renewal was sent, in case that renewal hangs. Not later than
/// the end of its validity.
pub(super) fn due_again(held: &Held, now: Instant) -> Instant {
    let again = now + held.grant.lease / RESEND_PART;
    held.valid_until().map_or(again, |until| if until > now { again.min(until) } else { again })
}

/// When a lock is due again after its renewal failed. Not later than the end of its validity.
pub(super) fn due_after_failure(held: &Held, env: &dyn Env, now: Instant) -> Instant {
    let pause =
        (held.grant.lease / RENEWAL_RETRY_PART).clamp(SHORTEST_RETRY_PAUSE, LONGEST_RETRY_PAUSE);
    let again = now + jittered(env, pause);
    held.valid_until().map_or(again, |until| again.min(until))
}

/// Makes a held lock of a grant and registers it for renewal.
///
/// Returns the grant if its validity is over, or if `close` has released everything: it then counts
/// as not acquired (S3), and the caller must release it. `doubtful`: a late request of its owner
/// may still reach the store. `reported`: the acquire gets the lock for certain, so a loss may be
/// reported at once.
pub(crate) fn admit(
    state: &Arc<ClientState>,
    grant: Grant,
    wanted: &Wanted,
    doubtful: bool,
    reported: bool,
) -> Result<Arc<Held>, Grant> {
    let now = state.env.now();
    let (pushed, shorter) = (grant.claim.is_some(), grant.lease < wanted.lease);
    let held = Arc::new(Held::new(grant, state.renewer.next_id(), wanted, doubtful, now)?);
    if !reported {
        held.set_acquire_pending();
    }
    let at = if pushed {
        // A renewal confirms it in the background, early in the claim window. Not at once, because
        // a lock that is held only for a moment is released before and needs no renewal.
        held.valid_until().map_or(now, |until| now + until.since(now) / CONFIRM_PART)
    } else if shorter {
        // The store has another lease than the caller wants.
        now
    } else {
        due(&held.grant, held.grant.from)
    };
    if state.register_held(&held, at) { Ok(held) } else { Err(held.grant.clone()) }
}
