//! When a job must end, so that none of it runs beside the next holder of the lock.

use std::time::Duration;

use leasehold::backend::Instant;

use crate::tunables::{KILL_MARGIN_MOST, KILL_MARGIN_PART};

/// When the job reaper ends the job, unless a renewal is confirmed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline {
    /// When all processes get SIGTERM. From then on no renewal saves the job.
    pub(crate) term: Instant,
    /// When all processes get SIGKILL: before the end of the validity, and so before the next holder begins.
    pub(crate) kill: Instant,
}

impl Deadline {
    /// The deadline for a lock that is valid until `end`, as known at `now`.
    ///
    /// The grace time lies before the end of the validity. It is at most a third of what is left:
    /// the store may have set a shorter lease than the one that `grace` was checked against.
    pub(crate) fn of(end: Instant, now: Instant, grace: Duration, lease: Duration) -> Self {
        let kill = end - kill_margin(lease);
        let grace = grace.min(end.since(now) / 3);
        Self { term: (end - grace).min(kill), kill }
    }
}

/// How long before the end of the validity SIGKILL is sent: the kernel needs time to end the processes.
pub(crate) fn kill_margin(lease: Duration) -> Duration {
    (lease / KILL_MARGIN_PART).min(KILL_MARGIN_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_time_ends_before_the_validity() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let of = |grace, lease| {
            let grace = Duration::from_millis(grace);
            Deadline::of(at(13_000), at(4_000), grace, Duration::from_millis(lease))
        };
        assert_eq!(of(2_500, 10_000), Deadline { term: at(10_500), kill: at(12_500) });
        // No grace: both signals are sent together.
        assert_eq!(of(0, 10_000), Deadline { term: at(12_500), kill: at(12_500) });
        // More than a third of the validity: a third.
        assert_eq!(of(9_000, 60_000), Deadline { term: at(10_000), kill: at(12_000) });
    }
}
