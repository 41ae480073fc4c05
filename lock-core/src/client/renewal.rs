//! Renewal: when, in which batches, and what its answers mean.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    held::{Held, validity},
    inner::Inner,
};
use crate::{
    Grant, Instant, LossReason, Renewal,
    env::{jittered, spread},
};

/// When a grant that counts from `from` is to be renewed first: after a third of its lease, so that
/// two attempts may fail, and up to a quarter earlier, so that clients that started together part.
pub(crate) fn due(grant: &Grant, from: Instant) -> Instant {
    from + spread(grant.owner.to_bits(), grant.lease / 3)
}

/// When a lock whose renewal was just sent is looked at again: soon enough to send another while
/// the first hangs, and no later than the end of its validity.
pub(crate) fn look_again(held: &Held, now: Instant) -> Instant {
    let again = now + held.grant.lease / 6;
    held.valid_until().map_or(again, |until| if until > now { again.min(until) } else { again })
}

/// Parts what is due into what has ended, which is told at once, and what is to be renewed.
pub(crate) fn sort_out(inner: &Arc<Inner>, due: Vec<Arc<Held>>, now: Instant) -> Vec<Arc<Held>> {
    let mut renewals = due;
    renewals.retain(|held| match held.valid_until() {
        None => false,
        Some(until) if now >= until => {
            inner.expire(held, now);
            false
        }
        // The guard's own time limit ends before a renewal could matter.
        Some(until) if until >= held.hold_until() => {
            inner.keeper.reschedule(held, until);
            false
        }
        Some(_) => true,
    });
    renewals
}

/// Sends one batch and applies its answers.
pub(crate) async fn renew(inner: Arc<Inner>, batch: Vec<Arc<Held>>) {
    for held in &batch {
        held.unanswered.store(true, Ordering::Relaxed);
    }
    let grants: Vec<&Grant> = batch.iter().map(|held| &held.grant).collect();
    let sent = inner.env.now();
    let answers = inner.backend.renew(&grants, sent).await;
    debug_assert_eq!(answers.len(), batch.len(), "one answer per grant");
    for (held, answer) in batch.iter().zip(answers) {
        apply(&inner, held, answer);
    }
}

fn apply(inner: &Arc<Inner>, held: &Arc<Held>, answer: Renewal) {
    let now = inner.env.now();
    match answer {
        Renewal::Renewed { from, lease } => {
            held.unanswered.store(false, Ordering::Relaxed);
            let renewed = Grant { from, lease, claim: None, ..held.grant.clone() };
            if held.extend(validity(&renewed), now) {
                inner.keeper.reschedule(held, due(&renewed, from));
            } else {
                inner.expire(held, now);
            }
        }
        Renewal::Lost(reason) => inner.lose(held, reason),
        Renewal::Unknown(error) => {
            // Not a loss: the store may still keep the lease. Try again until validity ends.
            tracing::warn!(name = %held.grant.name, owner = %held.grant.owner, %error, "renewal failed");
            let pause =
                (held.grant.lease / 20).clamp(Duration::from_millis(5), Duration::from_secs(1));
            let again = now + jittered(&*inner.env, pause);
            let until = held.valid_until().unwrap_or(again);
            inner.keeper.reschedule(held, again.min(until));
        }
    }
}

impl Inner {
    /// Tells a holder that its time is over, and frees what the store may still keep.
    pub(crate) fn expire(self: &Arc<Self>, held: &Arc<Held>, now: Instant) {
        let reason = if now >= held.hold_until() {
            LossReason::HoldLimit
        } else if held.unanswered.load(Ordering::Relaxed) {
            LossReason::Unreachable
        } else {
            LossReason::Expired
        };
        self.lose(held, reason);
    }
}
