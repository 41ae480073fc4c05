//! Windows.

use std::{sync::LazyLock, time::SystemTime};

use winsafe::{QueryPerformanceCounter, QueryPerformanceFrequency};

use crate::{Instant, SystemEnv, env::sleep_checking_clock};

/// Ticks of the counter in a second. It never changes while the system runs.
static FREQUENCY: LazyLock<u128> = LazyLock::new(|| {
    QueryPerformanceFrequency().map_or(1, |ticks| ticks.max(1).unsigned_abs().into())
});

/// All processes of the machine share this counter. The manual says that it never fails. If it
/// does, all validity is over.
pub(crate) fn now() -> Instant {
    let ticks = QueryPerformanceCounter().map_or(u64::MAX, i64::unsigned_abs);
    let nanos = u128::from(ticks) * 1_000_000_000 / *FREQUENCY;
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

pub(crate) fn wall_micros() -> u64 {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".to_owned())
}

pub(crate) async fn sleep_until(at: Instant) {
    sleep_checking_clock(&SystemEnv, at).await;
}
