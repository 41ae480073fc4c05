//! What all Unix systems have.

use rustix::time::{ClockId, clock_gettime};

use crate::Instant;

/// The time of a clock that never goes back.
pub(super) fn read(clock: ClockId) -> Instant {
    let now = clock_gettime(clock);
    Instant::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

pub(crate) fn wall_micros() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec.max(0) as u64) * 1_000_000 + now.tv_nsec as u64 / 1_000
}

pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
