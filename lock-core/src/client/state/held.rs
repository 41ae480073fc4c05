//! One acquired lock, shared by its guard and the renewer.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    },
    time::Duration,
};

use tokio::{runtime::Handle, sync::Notify};
use tokio_util::sync::CancellationToken;

use super::options::Wanted;
use crate::{
    Grant, Instant, LossReason, OncePer, drift_margin, sync::Mutex, tunables::FAILURE_LINE_PART,
};

/// How a held lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Detached,
    Lost(LossReason),
}

/// `valid_until` of a lock that has ended. It is never set back (S5).
const ENDED: u64 = 0;

// The values of `report`.
/// The event of the acquire that gets this lock is still to come.
const ACQUIRE_PENDING: u8 = 0;
/// The event was emitted.
const ACQUIRE_REPORTED: u8 = 1;
/// The lock was lost before the event. The acquire then emits both events.
const LOST_BEFORE_REPORT: u8 = 2;

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) grant: Grant,
    /// Distinguishes locks that are due at the same instant.
    pub(crate) id: u64,
    /// The key of this lock in the renewer's timer queue. Written only under the queue's mutex.
    pub(crate) timer: AtomicU64,
    /// Whether a late request of this owner may still reach the store.
    pub(crate) doubtful: bool,
    /// Whether the last renewal has no answer.
    pub(crate) unanswered: AtomicBool,
    /// Whether a renewal was sent whose success or failure is not counted yet.
    uncounted: AtomicBool,
    /// How many renewals have failed since the last confirmed one.
    failures: AtomicU32,
    /// Limits the lines about failed renewals.
    pub(crate) failure_line: OncePer,
    /// The instant from which the last confirmed lease counts.
    confirmed: AtomicU64,
    /// When the lock was acquired.
    since: Instant,
    /// Whether the event of the acquire was emitted; decides who emits the event of a loss.
    report: AtomicU8,
    /// How long after its last answer the store may keep the lock. This is longer than the lease if
    /// the lock was granted for an older waiter, or pushed.
    pub(crate) store_keeps: Duration,
    /// The runtime of the task that got the lock, or of a later holder. If the renewer's runtime
    /// ends, the renewals go on here.
    pub(crate) runtime: Mutex<Option<Handle>>,
    /// How many guards share the lock.
    guards: AtomicU32,
    /// How many writes of the record were begun.
    record_writes: AtomicU64,
    /// Whether it is a permit of a semaphore.
    pub(crate) permit: AtomicBool,
    /// Whether no guard was ever made of it. It then has no minimum hold.
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

/// The end of the validity of a grant (S3).
pub(crate) fn validity(grant: &Grant) -> Instant {
    // Never longer than the lease: the renewal that claims a pushed grant replaces the claim window
    // by the lease, and its answer may be lost.
    let span = grant.claim.map_or(grant.lease, |claim| claim.min(grant.lease));
    grant.from + span.saturating_sub(drift_margin(span) + grant.margin)
}

impl Held {
    /// Makes a held lock of a grant. Returns the grant if its validity is over at `now`.
    pub(crate) fn new(
        mut grant: Grant,
        id: u64,
        wanted: &Wanted,
        doubtful: bool,
        now: Instant,
    ) -> Result<Self, Grant> {
        let hold_until =
            wanted.hold_at_most.map_or(Instant::from_nanos(u64::MAX), |span| now + span);
        // The request may have been made for an older waiter with another lease. Renewals ask for
        // the lease of this waiter. If that is shorter, it counts from the start, because the
        // answer to a renewal may be lost.
        let granted = grant.lease;
        grant.lease = granted.min(wanted.lease);
        let valid_until = validity(&grant).min(hold_until);
        if now >= valid_until {
            grant.lease = granted;
            return Err(grant);
        }
        grant.lease = wanted.lease;
        let doubtful = doubtful || grant.doubtful;
        let store_keeps = granted.max(wanted.lease).max(grant.claim.unwrap_or_default());
        let confirmed = AtomicU64::new(grant.from.as_nanos());
        let failure_line = OncePer::new(wanted.lease / FAILURE_LINE_PART);
        Ok(Self {
            grant,
            since: now,
            confirmed,
            uncounted: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            failure_line,
            report: AtomicU8::new(ACQUIRE_REPORTED),
            store_keeps,
            id,
            timer: AtomicU64::new(0),
            doubtful,
            unanswered: AtomicBool::new(false),
            runtime: Mutex::default(),
            guards: AtomicU32::new(1),
            record_writes: AtomicU64::new(0),
            permit: AtomicBool::new(false),
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

    /// The end of the validity; `None` if the lock has ended.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        match self.valid_until.load(Ordering::Acquire) {
            ENDED => None,
            nanos => Some(Instant::from_nanos(nanos)),
        }
    }

    /// When the lock was acquired.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Marks that the event of the acquire is still to come.
    pub(crate) fn set_acquire_pending(&self) {
        self.report.store(ACQUIRE_PENDING, Ordering::Relaxed);
    }

    /// Marks that the event of the acquire was emitted. `false` if the lock was lost before: the
    /// caller must then emit the event of the loss.
    pub(crate) fn set_acquire_reported(&self) -> bool {
        self.is_acquire_reported()
            || self
                .report
                .compare_exchange(
                    ACQUIRE_PENDING,
                    ACQUIRE_REPORTED,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                )
                .is_ok()
    }

    pub(crate) fn is_acquire_reported(&self) -> bool {
        self.report.load(Ordering::Acquire) == ACQUIRE_REPORTED
    }

    /// Whether the event of a loss may be emitted now. If not, the acquire emits it after its own
    /// event.
    pub(crate) fn may_report_end(&self) -> bool {
        self.is_acquire_reported()
            || self
                .report
                .compare_exchange(
                    ACQUIRE_PENDING,
                    LOST_BEFORE_REPORT,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                )
                .is_err()
    }

    /// Marks that a renewal is sent.
    pub(crate) fn set_renewal_sent(&self) {
        self.unanswered.store(true, Ordering::Relaxed);
        self.uncounted.store(true, Ordering::Relaxed);
    }

    /// Counts a renewal that has failed or is late; `false` if it was counted before.
    pub(crate) fn count_failure(&self) -> bool {
        let first = self.uncounted.swap(false, Ordering::Relaxed);
        if first {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        first
    }

    /// Marks that a renewal was confirmed. Its lease counts from `from`.
    pub(crate) fn set_confirmed(&self, from: Instant) {
        self.unanswered.store(false, Ordering::Relaxed);
        self.uncounted.store(false, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        self.confirmed.fetch_max(from.as_nanos(), Ordering::Relaxed);
    }

    /// The instant from which the last confirmed lease counts.
    pub(crate) fn confirmed(&self) -> Instant {
        Instant::from_nanos(self.confirmed.load(Ordering::Relaxed))
    }

    /// How many renewals have failed since the last confirmed one.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The end of the lock by `hold_at_most`. No renewal extends it further.
    pub(crate) fn hold_until(&self) -> Instant {
        self.hold_until
    }

    /// The rest of the minimum hold after a release at `now`.
    pub(crate) fn keep(&self, now: Instant) -> Option<Duration> {
        let until = self.keep_until.filter(|_| !self.unused.load(Ordering::Relaxed))?;
        Some(until.since(now)).filter(|left| !left.is_zero())
    }

    /// Marks that no guard was ever made of it.
    pub(crate) fn set_unused(&self) {
        self.unused.store(true, Ordering::Relaxed);
    }

    /// Counts another guard. The caller already has one.
    pub(crate) fn share(&self) {
        self.guards.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of the next write of the record, from 1.
    pub(crate) fn next_record_write(&self) -> u64 {
        self.record_writes.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How many writes of the record were begun.
    pub(crate) fn record_writes(&self) -> u64 {
        self.record_writes.load(Ordering::Relaxed)
    }

    /// Sets how many writes of the record were begun before, under the same grant.
    pub(crate) fn set_record_writes(&self, count: u64) {
        self.record_writes.store(count, Ordering::Relaxed);
    }

    /// Whether one guard has the lock alone.
    pub(crate) fn has_one_guard(&self) -> bool {
        self.guards.load(Ordering::Acquire) == 1
    }

    /// Whether it has a minimum hold, or a limit for holding.
    pub(crate) fn has_hold_limits(&self) -> bool {
        self.keep_until.is_some() || self.hold_until != Instant::from_nanos(u64::MAX)
    }

    /// Removes a guard from the count; `true` if it was the last one.
    pub(crate) fn leave(&self) -> bool {
        self.guards.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.end.get().copied()
    }

    /// Extends the validity after a confirmed renewal. `false` if the validity had ended before: a
    /// guard that may have reported its loss stays lost, whatever the store says.
    pub(crate) fn extend(&self, until: Instant, now: Instant) -> bool {
        let until = until.min(self.hold_until).as_nanos();
        self.valid_until
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |current| {
                (current != ENDED && now.as_nanos() < current).then_some(current.max(until))
            })
            .is_ok()
    }

    /// Ends the lock; `false` if it had ended before.
    pub(crate) fn finish(&self, end: End) -> bool {
        let over = |nanos| nanos == ENDED;
        if over(self.valid_until.load(Ordering::Acquire))
            || over(self.valid_until.swap(ENDED, Ordering::AcqRel))
        {
            return false;
        }
        let _ = self.end.set(end);
        // Either a waiting task sees the end after its own fence, or this sees that it waits.
        fence(Ordering::SeqCst);
        if let Some(token) = self.cancellation.get().filter(|_| matches!(end, End::Lost(_))) {
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
        // The lock may have ended before the token was there; see `finish`.
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

    fn validity_of(grant: Grant, lease: Duration) -> Duration {
        let wanted =
            Wanted { mode: crate::Mode::Exclusive, lease, at_least: None, hold_at_most: None };
        let held = Held::new(grant, 1, &wanted, false, Instant::from_nanos(1)).unwrap();
        held.valid_until().unwrap().since(Instant::from_nanos(0))
    }

    #[test]
    fn the_validity_is_that_of_the_shortest_lease_that_the_store_may_set() {
        let valid = |span| span - drift_margin(span);
        let pushed = |lease| grant(lease).pushed(2 * SECOND);
        assert_eq!(validity_of(grant(10 * SECOND), 10 * SECOND), valid(10 * SECOND));
        // A renewal asks for the waiter's lease, and its answer may be lost.
        assert_eq!(validity_of(grant(10 * SECOND), SECOND), valid(SECOND));
        assert_eq!(validity_of(grant(SECOND), 10 * SECOND), valid(SECOND));
        assert_eq!(validity_of(pushed(SECOND), SECOND), valid(SECOND));
        assert_eq!(validity_of(pushed(10 * SECOND), 10 * SECOND), valid(2 * SECOND));
    }
}
