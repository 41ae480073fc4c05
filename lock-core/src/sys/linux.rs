//! Linux.

use std::io;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::{Interest, unix::AsyncFd};

pub(crate) use super::unix::{host_name, wall_micros};
use crate::{Instant, SystemEnv, env::sleep_checking_clock};

pub(crate) fn now() -> Instant {
    super::unix::read(ClockId::Boottime)
}

pub(crate) async fn sleep_until(at: Instant) {
    // Tokio's timers count CLOCK_MONOTONIC, so a suspend delays them. A timerfd on CLOCK_BOOTTIME
    // fires at once on resume. If the system gives us none, check the clock every second.
    if boottime_alarm(at).await.is_err() {
        sleep_checking_clock(&SystemEnv, at).await;
    }
}

async fn boottime_alarm(at: Instant) -> io::Result<()> {
    if now() >= at {
        return Ok(());
    }
    let alarm = timerfd_create(
        TimerfdClockId::Boottime,
        TimerfdFlags::NONBLOCK.union(TimerfdFlags::CLOEXEC),
    )?;
    let at = at.as_nanos().min(i64::MAX as u64);
    let once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let when = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as _ };
    let spec = Itimerspec { it_interval: once, it_value: when };
    timerfd_settime(&alarm, TimerfdTimerFlags::ABSTIME, &spec)?;
    // Deprecated because a type may lie about its descriptor; an `OwnedFd` does not, and the
    // successor needs `unsafe`, which this workspace forbids.
    #[expect(deprecated, reason = "sound for an OwnedFd")]
    let alarm = AsyncFd::with_interest(alarm, Interest::READABLE)?;
    alarm.readable().await?.retain_ready();
    Ok(())
}
