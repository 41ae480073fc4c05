//! One acquired lock, shared by its guard and the keeper.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::options::Wanted;
use crate::{Grant, Instant, LossReason, drift_margin};

/// How holding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Lost(LossReason),
}

/// `valid_until` of a lock that has ended: never set back (S5).
const ENDED: u64 = 0;

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) grant: Grant,
    /// Tells locks apart that are due at the same instant.
    pub(crate) id: u64,
    /// Where this lock stands in the keeper's timer queue; written only under the keeper's mutex.
    pub(crate) timer: AtomicU64,
    /// Whether the last renewal got no answer.
    pub(crate) unanswered: AtomicBool,
    valid_until: AtomicU64,
    hold_until: Instant,
    keep_until: Option<Instant>,
    end: OnceLock<End>,
    changed: Notify,
    cancellation: OnceLock<CancellationToken>,
}

/// The instant until which a holder may believe a grant (S3).
pub(crate) fn validity(grant: &Grant) -> Instant {
    let span = grant.claim.unwrap_or(grant.lease);
    grant.from + span.saturating_sub(drift_margin(span) + grant.margin)
}

impl Held {
    /// A lock that is valid at `now`; the grant comes back if it no longer is.
    pub(crate) fn new(
        mut grant: Grant,
        id: u64,
        wanted: &Wanted,
        now: Instant,
    ) -> Result<Self, Grant> {
        let hold_until =
            wanted.hold_at_most.map_or(Instant::from_nanos(u64::MAX), |span| now + span);
        let valid_until = validity(&grant).min(hold_until);
        if now >= valid_until {
            return Err(grant);
        }
        // A grant may have been asked for by an older waiter with another lease.
        grant.lease = wanted.lease;
        Ok(Self {
            grant,
            id,
            timer: AtomicU64::new(0),
            unanswered: AtomicBool::new(false),
            valid_until: AtomicU64::new(valid_until.as_nanos()),
            hold_until,
            keep_until: wanted.at_least.map(|span| now + span),
            end: OnceLock::new(),
            changed: Notify::new(),
            cancellation: OnceLock::new(),
        })
    }

    pub(crate) fn valid_until(&self) -> Option<Instant> {
        match self.valid_until.load(Ordering::Acquire) {
            ENDED => None,
            nanos => Some(Instant::from_nanos(nanos)),
        }
    }

    /// The instant past which nothing renews it.
    pub(crate) fn hold_until(&self) -> Instant {
        self.hold_until
    }

    /// How long the store is to keep the grant after a release at `now`.
    pub(crate) fn keep(&self, now: Instant) -> Option<Duration> {
        self.keep_until.map(|until| until.since(now)).filter(|left| !left.is_zero())
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.end.get().copied()
    }

    /// Takes a confirmed renewal over. `false` when the validity had ended before: a guard that may
    /// have reported its loss stays lost, whatever the store says.
    pub(crate) fn extend(&self, until: Instant, now: Instant) -> bool {
        let until = until.min(self.hold_until).as_nanos();
        self.valid_until
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |current| {
                (current != ENDED && now.as_nanos() < current).then_some(current.max(until))
            })
            .is_ok()
    }

    /// Ends it; `false` if it had ended before.
    pub(crate) fn finish(&self, end: End) -> bool {
        let over = |nanos| nanos == ENDED;
        if over(self.valid_until.load(Ordering::Acquire))
            || over(self.valid_until.swap(ENDED, Ordering::AcqRel))
        {
            return false;
        }
        let _ = self.end.set(end);
        if let Some(token) = self.cancellation.get().filter(|_| end != End::Released) {
            token.cancel();
        }
        self.changed.notify_waiters();
        true
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) -> End {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(end) = self.end() {
                return end;
            }
            changed.await;
        }
    }

    /// A token that is cancelled on loss.
    pub(crate) fn cancellation(&self) -> CancellationToken {
        let token = self.cancellation.get_or_init(CancellationToken::new);
        // The end may have come between the two.
        if matches!(self.end(), Some(End::Lost(_))) {
            token.cancel();
        }
        token.clone()
    }
}
