//! macOS, and any other Unix.

use rustix::time::ClockId;

pub(crate) use super::unix::{host_name, wall_micros};
use crate::{Instant, SystemEnv, env::sleep_checking_clock};

pub(crate) fn now() -> Instant {
    super::unix::read(ClockId::Monotonic)
}

pub(crate) async fn sleep_until(at: Instant) {
    sleep_checking_clock(&SystemEnv, at).await;
}
