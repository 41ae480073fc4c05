//! Emits the events of a client, to its observer and to `tracing`.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
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

/// A renewal that has failed, or has had no answer for too long.
pub(crate) struct FailedRenewal<'a> {
    pub(crate) held: &'a Held,
    pub(crate) error: Error,
    /// The remaining validity.
    pub(crate) remaining: Duration,
}

impl<'a> FailedRenewal<'a> {
    pub(crate) fn late(held: &'a Held, remaining: Duration) -> Self {
        let message = "the store has not answered a renewal yet; it is sent again";
        let error = Error::new(ErrorKind::Timeout, message).on(&held.grant.name);
        Self { held, error, remaining }
    }
}

/// The target of all spans and events, in whatever module they are. Users filter by it.
pub(crate) const TARGET: &str = "leasehold";

impl ClientState {
    /// Whether anybody receives events that are no warnings. If not, no clock is read for them.
    pub(crate) fn is_observed(&self) -> bool {
        tracing::enabled!(target: TARGET, Level::DEBUG) || self.observer.get().is_some()
    }

    /// Emits an event of a lock, and of its holder if this client holds it.
    pub(crate) fn emit(&self, name: &LockName, held: Option<&Held>, kind: EventKind<'_>) {
        let holder = held.map(|held| (held.grant.owner, held.grant.token));
        let (store, label) = (self.backend.kind(), &self.options.label);
        let event = Event { store, label, name, holder, kind };
        trace(&event);
        self.observe_event(&event);
    }

    fn observe_event(&self, event: &Event<'_>) {
        if let Some(observer) = self.observer.get() {
            // The renewer and `drop` call this, and must survive a panic of the observer.
            let _ = catch_unwind(AssertUnwindSafe(|| observer.event(event)));
        }
    }

    /// Ends a lock that is lost, and emits the event; `false` if it had ended before.
    pub(crate) fn end_lost(&self, held: &Held, reason: LossReason) -> bool {
        let ended = held.finish(End::Lost(reason));
        if ended && held.may_report_end() {
            self.emit_lost(held, reason);
        }
        ended
    }

    /// Marks that the event of the acquire was emitted. If the lock was lost before, the event of
    /// the loss follows now.
    pub(crate) fn acquire_reported(&self, held: &Held) {
        if !held.set_acquire_reported()
            && let Some(End::Lost(reason)) = held.end()
        {
            self.emit_lost(held, reason);
        }
    }

    fn emit_lost(&self, held: &Held, reason: LossReason) {
        let event = EventKind::Lost { reason, held: self.env.now().since(held.since()) };
        self.emit(&held.grant.name, Some(held), event);
    }

    /// Emits the event of a release that has ended.
    pub(crate) fn emit_released(
        &self,
        held: &Held,
        span: Duration,
        outcome: Result<ReleaseOutcome, &Error>,
    ) {
        // A release after a loss, or of a lock whose acquire has no event, is clean-up and has no
        // event.
        if self.is_observed() && held.end() == Some(End::Released) && held.is_acquire_reported() {
            let event = EventKind::Released { held: span, outcome };
            self.emit(&held.grant.name, Some(held), event);
        }
    }

    /// Emits the events of renewals that failed in the same call, or are late, to the observer.
    /// `tracing` has one line for all of them, and none for a lock that had one less than a quarter
    /// of its lease ago.
    pub(crate) fn emit_renewals_failed(&self, failed: &[FailedRenewal<'_>]) {
        let (now, store, label) = (self.env.now(), self.backend.kind(), &self.options.label);
        let mut line: Option<(Event<'_>, Duration)> = None;
        let mut others = 0;
        for FailedRenewal { held, error, remaining } in failed {
            let (name, holder) = (&held.grant.name, Some((held.grant.owner, held.grant.token)));
            let (remaining, lease) = (*remaining, held.grant.lease);
            let kind = EventKind::RenewalFailed { error, remaining, lease };
            let event = Event { store, label, name, holder, kind };
            self.observe_event(&event);
            if !held.failure_line.is_due(now) {
                continue;
            }
            others += u32::from(line.is_some());
            // The line names the lock that ends first.
            if line.as_ref().is_none_or(|(_, least)| remaining < *least) {
                line = Some((event, remaining));
            }
        }
        if let Some((event, _)) = line {
            trace_failed_renewals(&event, others);
        }
    }

    /// Emits the event of an attempt that the store refused because of a quarantine; to `tracing`
    /// once a minute.
    pub(crate) fn emit_quarantined(&self, name: &LockName, quarantined: &Quarantined) {
        let Quarantined { remaining, why } = quarantined;
        let (store, label) = (self.backend.kind(), &self.options.label);
        let kind = EventKind::Quarantined { remaining: *remaining, why };
        let event = Event { store, label, name, holder: None, kind };
        if self.quarantine_line.is_due(self.env.now()) {
            trace(&event);
        }
        self.observe_event(&event);
    }
}

/// Milliseconds with three decimals.
pub(crate) fn ms(span: Duration) -> f64 {
    span.as_micros() as f64 / 1000.0
}

/// An event to `tracing`, with the fields that all have.
macro_rules! event {
    ($event:ident, $level:ident, $($fields:tt)*) => {
        tracing::$level!(
            target: TARGET,
            name = $event.name.as_str(),
            label = $event.label.as_str(),
            owner = $event.holder.map(|(owner, _)| tracing::field::display(owner)),
            token = $event.holder.map(|(_, token)| token.get()),
            $($fields)*
        )
    };
}

/// Emits an event to `tracing`; docs/observability.md lists the fields.
fn trace(event: &Event<'_>) {
    match event.kind {
        EventKind::Requested => event!(event, trace, "requested"),
        EventKind::Acquired { waited, pushed } => {
            event!(event, debug, waited_ms = ms(waited), pushed, "acquired");
        }
        EventKind::NotAcquired { why, waited } => {
            let error = match why {
                NotAcquired::Failed(error) => Some(tracing::field::display(error)),
                _ => None,
            };
            event!(
                event,
                debug,
                waited_ms = ms(waited),
                outcome = why.word(),
                error,
                "not acquired"
            );
        }
        EventKind::Renewed { took, slack, .. } => {
            event!(event, trace, took_ms = ms(took), slack_ms = ms(slack), "renewed");
        }
        EventKind::RenewalFailed { .. } => trace_failed_renewals(event, 0),
        EventKind::Lost { reason, held } => {
            event!(event, warn, held_ms = ms(held), %reason, "lock lost");
        }
        EventKind::Released { held, outcome } => {
            let word = match outcome {
                Ok(ReleaseOutcome::Released) => "released",
                Ok(ReleaseOutcome::NotHeld) => "not held",
                Err(_) => "failed",
            };
            let error = outcome.err().map(tracing::field::display);
            event!(event, debug, held_ms = ms(held), outcome = word, error, "released");
        }
        EventKind::Detached { held } => event!(event, debug, held_ms = ms(held), "detached"),
        EventKind::Quarantined { remaining, why } => {
            event!(event, info, remaining_ms = ms(remaining), why, "quarantined");
        }
    }
}

/// The line for one or more failed renewals. `others` is the number of locks besides that of the
/// event.
fn trace_failed_renewals(event: &Event<'_>, others: u32) {
    let EventKind::RenewalFailed { error, remaining, .. } = event.kind else { return };
    let others = Some(others).filter(|others| *others > 0);
    event!(event, warn, remaining_ms = ms(remaining), others, %error, "renewal failed");
}
