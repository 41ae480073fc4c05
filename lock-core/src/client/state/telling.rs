//! Tells of events: the observer, and whoever subscribes to `tracing`.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tracing::Level;

use super::{
    client_state::ClientState,
    held::{End, Held},
};
use crate::{
    Error, ErrorKind, Event, EventKind, LockName, LossReason, NotAcquired, Quarantined,
    ReleaseOutcome,
};

/// Of all spans and events below, whatever the module is called: users filter by it.
pub(crate) const TARGET: &str = "leasehold";

impl ClientState {
    /// Whether anybody hears of what is not a warning. If not, no clock is read for it.
    pub(crate) fn is_observed(&self) -> bool {
        tracing::enabled!(target: TARGET, Level::DEBUG) || self.observer.get().is_some()
    }

    /// Tells of an event of a lock, and of its holder if there is one.
    pub(crate) fn tell(&self, name: &LockName, held: Option<&Held>, kind: EventKind<'_>) {
        let holder = held.map(|held| (held.grant.owner, held.grant.token));
        let (store, label) = (self.backend.kind(), &self.options.label);
        let event = Event { store, label, name, holder, kind };
        trace(&event);
        if let Some(observer) = self.observer.get() {
            // The renewer and `drop` come here: they must go on.
            let _ = catch_unwind(AssertUnwindSafe(|| observer.event(&event)));
        }
    }

    /// Ends a lock that is lost, and tells of it; `false` if it had ended before.
    pub(crate) fn end_lost(&self, held: &Held, reason: LossReason) -> bool {
        let ended = held.finish(End::Lost(reason));
        if ended && held.may_tell_end() {
            self.tell_lost(held, reason);
        }
        ended
    }

    /// An acquire has ended with this lock, as those that were observed from its begin on have told. If it was lost
    /// before, that is told now.
    pub(crate) fn heard(&self, held: &Held) {
        if !held.set_heard()
            && let Some(End::Lost(reason)) = held.end()
        {
            self.tell_lost(held, reason);
        }
    }

    fn tell_lost(&self, held: &Held, reason: LossReason) {
        let event = EventKind::Lost { reason, held: self.env.now().since(held.since()) };
        self.tell(&held.grant.name, Some(held), event);
    }

    /// A release has ended.
    pub(crate) fn tell_released(
        &self,
        held: &Held,
        span: Duration,
        outcome: Result<ReleaseOutcome, &Error>,
    ) {
        // What follows a loss, or nobody has heard of, is clean-up.
        if self.is_observed() && held.end() == Some(End::Released) && held.is_heard() {
            let event = EventKind::Released { held: span, outcome };
            self.tell(&held.grant.name, Some(held), event);
        }
    }

    /// A renewal has failed; `remaining` is what is left of the validity.
    pub(crate) fn tell_renewal_failed(&self, held: &Held, error: &Error, remaining: Duration) {
        let event = EventKind::RenewalFailed { error, remaining, lease: held.grant.lease };
        self.tell(&held.grant.name, Some(held), event);
    }

    /// The same for one that has had no answer for too long.
    pub(crate) fn tell_renewal_late(self: &Arc<Self>, held: &Held, remaining: Duration) {
        let message = "the store has not answered a renewal yet; it is sent again";
        let error = Error::new(ErrorKind::Timeout, message).on(&held.grant.name);
        self.tell_renewal_failed(held, &error, remaining);
    }

    /// An attempt was answered by a quarantine.
    pub(crate) fn tell_quarantined(&self, name: &LockName, quarantined: &Quarantined) {
        let Quarantined { remaining, why } = quarantined;
        self.tell(name, None, EventKind::Quarantined { remaining: *remaining, why });
    }
}

/// Milliseconds, to the microsecond.
pub(crate) fn ms(span: Duration) -> f64 {
    span.as_micros() as f64 / 1000.0
}

/// The events for `tracing`; docs/observability.md has their fields.
fn trace(event: &Event<'_>) {
    macro_rules! event {
        ($level:ident, $($fields:tt)*) => {
            tracing::$level!(
                target: TARGET,
                name = event.name.as_str(),
                owner = event.holder.map(|(owner, _)| tracing::field::display(owner)),
                token = event.holder.map(|(_, token)| token.get()),
                $($fields)*
            )
        };
    }
    match event.kind {
        EventKind::Requested => event!(trace, "requested"),
        EventKind::Acquired { waited, pushed } => {
            event!(debug, waited_ms = ms(waited), pushed, "acquired");
        }
        EventKind::NotAcquired { why, waited } => {
            let error = match why {
                NotAcquired::Failed(error) => Some(tracing::field::display(error)),
                _ => None,
            };
            event!(debug, waited_ms = ms(waited), outcome = why.word(), error, "not acquired");
        }
        EventKind::Renewed { took, slack, .. } => {
            event!(trace, took_ms = ms(took), slack_ms = ms(slack), "renewed");
        }
        EventKind::RenewalFailed { error, remaining, .. } => {
            event!(warn, remaining_ms = ms(remaining), %error, "renewal failed");
        }
        EventKind::Lost { reason, held } => {
            event!(warn, held_ms = ms(held), %reason, "lock lost");
        }
        EventKind::Released { held, outcome } => {
            let word = match outcome {
                Ok(ReleaseOutcome::Released) => "released",
                Ok(ReleaseOutcome::NotHeld) => "not held",
                Err(_) => "failed",
            };
            let error = outcome.err().map(tracing::field::display);
            event!(debug, held_ms = ms(held), outcome = word, error, "released");
        }
        EventKind::Quarantined { remaining, why } => {
            event!(info, remaining_ms = ms(remaining), why, "quarantined");
        }
    }
}
