//! When a held lock is to be renewed, from its grant on.

use std::sync::Arc;

use crate::{
    Grant, Instant,
    client::state::{ClientState, Held, Wanted},
    env::spread,
    tunables::{CONFIRM_PART, LOOK_AGAIN_PART, RENEWAL_PART},
};

/// When a grant that counts from `from` is to be renewed first: after a third of its lease, so that
/// two attempts may fail, and up to a quarter earlier, so that clients that started together part.
pub(super) fn due(grant: &Grant, from: Instant) -> Instant {
    from + spread(grant.owner.to_bits(), grant.lease / RENEWAL_PART)
}

/// When a lock whose renewal was just sent is looked at again: soon enough to send another while
/// the first hangs, and no later than the end of its validity.
pub(super) fn look_again(held: &Held, now: Instant) -> Instant {
    let again = now + held.grant.lease / LOOK_AGAIN_PART;
    held.valid_until().map_or(again, |until| if until > now { again.min(until) } else { again })
}

/// Makes a held lock of a grant and hands it to the renewer. A grant whose validity is spent comes back: it counts as
/// not acquired (S3), and the caller releases it; so does one that comes after `close` has released
/// everything. `doubtful`: an attempt of its owner may still be on its way. `heard`: the acquire ends with it in any case.
pub(crate) fn admit(
    state: &Arc<ClientState>,
    grant: Grant,
    wanted: &Wanted,
    doubtful: bool,
    heard: bool,
) -> Result<Arc<Held>, Grant> {
    let now = state.env.now();
    let (pushed, shorter) = (grant.claim.is_some(), grant.lease < wanted.lease);
    let held = Arc::new(Held::new(grant, state.renewer.next_id(), wanted, doubtful, now)?);
    if !heard {
        held.set_unheard();
    }
    let at = if pushed {
        // Confirmed by a renewal, off the caller's path and early in its claim window; not at once,
        // since a lock that is held for a moment is given back before and needs none.
        held.valid_until().map_or(now, |until| now + until.since(now) / CONFIRM_PART)
    } else if shorter {
        // The store has another lease than the caller's.
        now
    } else {
        due(&held.grant, held.grant.from)
    };
    if state.keep(&held, at) { Ok(held) } else { Err(held.grant.clone()) }
}
