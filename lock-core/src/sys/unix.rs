//! macOS, and any other Unix.

use rustix::time::{ClockId, clock_gettime};

use crate::{Instant, SystemEnv, env::sleep_checking_clock};

pub(crate) fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

pub(crate) fn wall_micros() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec.max(0) as u64) * 1_000_000 + now.tv_nsec as u64 / 1_000
}

pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

pub(crate) async fn sleep_until(at: Instant) {
    sleep_checking_clock(&SystemEnv, at).await;
}
