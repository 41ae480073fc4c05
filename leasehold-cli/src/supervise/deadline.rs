//! When a job must end, so that none of it runs beside the next holder of the lock.

use std::time::Duration;

use leasehold::backend::{Instant, drift_margin};

use crate::tunables::{KILL_MARGIN_MOST, KILL_MARGIN_PART, LONGEST_LOSS_GRACE_PART};

/// The validity of a lock, as far as it is known. Of several locks, the one that ends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// When it ends, unless a renewal is confirmed before.
    pub end: Instant,
    /// The lease that the store sets. It may be shorter than the wanted one.
    pub lease: Duration,
}

impl Validity {
    /// When the last process that knows the lock must have ended: between [`Deadline::kill`] and
    /// the end.
    pub(crate) fn overdue(self) -> Instant {
        self.end - kill_margin(self.lease) / 2
    }
}

/// The longest grace time for a lock with this lease. A longer one would leave no time to repeat a
/// renewal, and would end healthy jobs.
pub(crate) fn longest_grace(lease: Duration) -> Duration {
    lease.saturating_sub(drift_margin(lease)) / LONGEST_LOSS_GRACE_PART
}

/// When the job reaper ends the job, unless a renewal is confirmed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline {
    /// When all processes get SIGTERM. From then on no renewal saves the job.
    pub(crate) term: Instant,
    /// When all processes get SIGKILL: before the end of the validity, and so before the next
    /// holder begins.
    pub(crate) kill: Instant,
}

impl Deadline {
    /// The deadline for a lock with this validity. The grace time lies before its end.
    pub(crate) fn of(Validity { end, lease }: Validity, grace: Duration) -> Self {
        let kill = end - kill_margin(lease);
        // `grace` was checked against the wanted lease.
        let grace = grace.min(longest_grace(lease));
        Self { term: (end - grace).min(kill), kill }
    }
}

/// How long before the end of the validity SIGKILL is sent: the kernel needs time to end the
/// processes.
fn kill_margin(lease: Duration) -> Duration {
    (lease / KILL_MARGIN_PART).min(KILL_MARGIN_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_time_ends_before_the_validity() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let of = |grace, lease| {
            let validity = Validity { end: at(13_000), lease: Duration::from_millis(lease) };
            Deadline::of(validity, Duration::from_millis(grace))
        };
        assert_eq!(of(2_500, 10_000), Deadline { term: at(10_500), kill: at(12_500) });
        // No grace: both signals are sent together.
        assert_eq!(of(0, 10_000), Deadline { term: at(12_500), kill: at(12_500) });
        // The store has set a shorter lease: a third of its validity.
        let term = at(13_000) - longest_grace(Duration::from_millis(800));
        assert_eq!(of(9_000, 800), Deadline { term, kill: at(12_960) });
    }
}
