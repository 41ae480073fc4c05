//! One acquired lock, shared by its guard and the renewer.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
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

/// States of `telling`: no acquire has ended with this lock yet; one has; it was lost before.
const UNHEARD: u8 = 0;
const HEARD: u8 = 1;
const LOST_UNHEARD: u8 = 2;

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) grant: Grant,
    /// Tells locks apart that are due at the same instant.
    pub(crate) id: u64,
    /// Where this lock stands in the renewer's timer queue; written only under its mutex.
    pub(crate) timer: AtomicU64,
    /// Whether an attempt of this owner may still be on its way.
    pub(crate) doubtful: bool,
    /// Whether the last renewal got no answer.
    pub(crate) unanswered: AtomicBool,
    /// Whether a renewal was sent of whose end nobody was told.
    untold: AtomicBool,
    /// How many renewals have failed since the last one was confirmed.
    failures: AtomicU32,
    /// From when the last confirmed lease counts.
    confirmed: AtomicU64,
    /// When it was acquired.
    since: Instant,
    /// Who tells of the end: see `set_heard`.
    telling: AtomicU8,
    /// How long the store may keep it from its last answer on: longer than the lease where it was granted for an older
    /// waiter, or pushed.
    pub(crate) stays: Duration,
    /// How many guards share it.
    guards: AtomicU32,
    /// Whether it never became a guard: a minimum hold is for locks that were used.
    unused: AtomicBool,
    valid_until: AtomicU64,
    hold_until: Instant,
    keep_until: Option<Instant>,
    end: OnceLock<End>,
    changed: Notify,
    /// Whether any task has ever waited for the end.
    watched: AtomicBool,
    cancellation: OnceLock<CancellationToken>,
}

/// The instant until which a holder may believe a grant (S3).
pub(crate) fn validity(grant: &Grant) -> Instant {
    // Not longer than the lease: the renewal that claims a pushed grant sets the lease in place of the
    // claim window, and its answer may be lost.
    let span = grant.claim.map_or(grant.lease, |claim| claim.min(grant.lease));
    grant.from + span.saturating_sub(drift_margin(span) + grant.margin)
}

impl Held {
    /// A lock that is valid at `now`; the grant comes back if it no longer is.
    pub(crate) fn new(
        mut grant: Grant,
        id: u64,
        wanted: &Wanted,
        doubtful: bool,
        now: Instant,
    ) -> Result<Self, Grant> {
        let hold_until =
            wanted.hold_at_most.map_or(Instant::from_nanos(u64::MAX), |span| now + span);
        // A grant may have been asked for by an older waiter with another lease. Renewals ask for this
        // one's; if that is shorter, it counts from the start, since an answer may be lost.
        let granted = grant.lease;
        grant.lease = granted.min(wanted.lease);
        let valid_until = validity(&grant).min(hold_until);
        if now >= valid_until {
            grant.lease = granted;
            return Err(grant);
        }
        grant.lease = wanted.lease;
        let doubtful = doubtful || grant.doubtful;
        let stays = granted.max(wanted.lease).max(grant.claim.unwrap_or_default());
        let confirmed = AtomicU64::new(grant.from.as_nanos());
        Ok(Self {
            grant,
            since: now,
            confirmed,
            untold: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            telling: AtomicU8::new(HEARD),
            stays,
            id,
            timer: AtomicU64::new(0),
            doubtful,
            unanswered: AtomicBool::new(false),
            guards: AtomicU32::new(1),
            unused: AtomicBool::new(false),
            valid_until: AtomicU64::new(valid_until.as_nanos()),
            hold_until,
            keep_until: wanted.at_least.map(|span| now + span),
            end: OnceLock::new(),
            changed: Notify::new(),
            watched: AtomicBool::new(false),
            cancellation: OnceLock::new(),
        })
    }

    pub(crate) fn valid_until(&self) -> Option<Instant> {
        match self.valid_until.load(Ordering::Acquire) {
            ENDED => None,
            nanos => Some(Instant::from_nanos(nanos)),
        }
    }

    /// When it was acquired.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Says that the acquire that waits for it may end before it hears of it.
    pub(crate) fn set_unheard(&self) {
        self.telling.store(UNHEARD, Ordering::Relaxed);
    }

    /// An acquire has ended with it and was told; `false` if it was lost before, and nobody was told.
    pub(crate) fn set_heard(&self) -> bool {
        self.is_heard()
            || self
                .telling
                .compare_exchange(UNHEARD, HEARD, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.telling.load(Ordering::Acquire) == HEARD
    }

    /// It was lost: whether that may be told now. If not, the acquire that ends with it tells.
    pub(crate) fn may_tell_end(&self) -> bool {
        self.is_heard()
            || self
                .telling
                .compare_exchange(UNHEARD, LOST_UNHEARD, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
    }

    /// A renewal leaves.
    pub(crate) fn set_asked(&self) {
        self.unanswered.store(true, Ordering::Relaxed);
        self.untold.store(true, Ordering::Relaxed);
    }

    /// A renewal has failed, or is late; `false` if that was told already.
    pub(crate) fn set_failed(&self) -> bool {
        let told = self.untold.swap(false, Ordering::Relaxed);
        if told {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        told
    }

    /// A renewal was confirmed, whose lease counts from `from`.
    pub(crate) fn set_confirmed(&self, from: Instant) {
        self.unanswered.store(false, Ordering::Relaxed);
        self.untold.store(false, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        self.confirmed.fetch_max(from.as_nanos(), Ordering::Relaxed);
    }

    /// From when the last confirmed lease counts.
    pub(crate) fn confirmed(&self) -> Instant {
        Instant::from_nanos(self.confirmed.load(Ordering::Relaxed))
    }

    /// How many renewals have failed since then.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The instant past which nothing renews it.
    pub(crate) fn hold_until(&self) -> Instant {
        self.hold_until
    }

    /// How long the store is to keep the grant after a release at `now`.
    pub(crate) fn keep(&self, now: Instant) -> Option<Duration> {
        let until = self.keep_until.filter(|_| !self.unused.load(Ordering::Relaxed))?;
        Some(until.since(now)).filter(|left| !left.is_zero())
    }

    /// Says that no guard was ever made of it.
    pub(crate) fn set_unused(&self) {
        self.unused.store(true, Ordering::Relaxed);
    }

    /// Counts one more guard; the caller has one.
    pub(crate) fn share(&self) {
        self.guards.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one guard off the count; `true` for the last one.
    pub(crate) fn leave(&self) -> bool {
        self.guards.fetch_sub(1, Ordering::AcqRel) == 1
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
        // Either a waiting task sees the end below its own fence, or it is seen here.
        fence(Ordering::SeqCst);
        if let Some(token) = self.cancellation.get().filter(|_| end != End::Released) {
            token.cancel();
        }
        if self.watched.load(Ordering::Acquire) {
            self.changed.notify_waiters();
        }
        true
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) -> End {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.watched.store(true, Ordering::Release);
            fence(Ordering::SeqCst);
            if let Some(end) = self.end() {
                return end;
            }
            changed.await;
        }
    }

    /// A token that is cancelled on loss.
    pub(crate) fn cancellation(&self) -> CancellationToken {
        let token = self.cancellation.get_or_init(CancellationToken::new);
        // The end may have come between the two; see `finish`.
        fence(Ordering::SeqCst);
        if matches!(self.end(), Some(End::Lost(_))) {
            token.cancel();
        }
        token.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FencingToken, LockName, OwnerId, OwnerLabel, Request};

    const SECOND: Duration = Duration::from_secs(1);

    fn grant(lease: Duration) -> Grant {
        let name = LockName::new("job").unwrap();
        let label = OwnerLabel::new("test").unwrap();
        let owner = OwnerId::from_bits(1);
        let request = Request::new(name, owner, label, lease, Instant::from_nanos(0));
        Grant::new(&request, FencingToken::ZERO)
    }

    fn believed(grant: Grant, lease: Duration) -> Duration {
        let wanted =
            Wanted { mode: crate::Mode::Exclusive, lease, at_least: None, hold_at_most: None };
        let held = Held::new(grant, 1, &wanted, false, Instant::from_nanos(1)).unwrap();
        held.valid_until().unwrap().since(Instant::from_nanos(0))
    }

    #[test]
    fn nothing_is_believed_for_longer_than_the_shortest_lease_that_may_be_set() {
        let valid = |span| span - drift_margin(span);
        assert_eq!(believed(grant(10 * SECOND), 10 * SECOND), valid(10 * SECOND));
        // A renewal asks for the waiter's lease, and the store may set it unheard.
        assert_eq!(believed(grant(10 * SECOND), SECOND), valid(SECOND));
        assert_eq!(believed(grant(SECOND), 10 * SECOND), valid(SECOND));
        assert_eq!(believed(grant(SECOND).pushed(2 * SECOND), SECOND), valid(SECOND));
        assert_eq!(believed(grant(10 * SECOND).pushed(2 * SECOND), 10 * SECOND), valid(2 * SECOND));
    }
}
