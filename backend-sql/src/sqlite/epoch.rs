//! The epoch of a row says to which clock its times belong.

use lock_core::{Env as _, Error, SystemEnv};

use super::sys;

/// The epoch of this process: a boot of a machine, on Linux seen from a time namespace.
pub(super) fn current() -> Result<String, Error> {
    sys::boot()
}

/// Nanoseconds of a clock that the processes of one epoch share, such as CLOCK_BOOTTIME.
pub(super) fn now() -> i64 {
    i64::try_from(SystemEnv.now().as_nanos()).unwrap_or(i64::MAX)
}

/// The day by the wall clock, from 1970 on.
pub(super) fn today() -> i64 {
    wall_micros() / 86_400_000_000
}

/// Microseconds of the wall clock.
pub(super) fn wall_micros() -> i64 {
    i64::try_from(SystemEnv.wall_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn stays_the_same_within_a_process() {
        let epoch = super::current().unwrap();
        assert_eq!(epoch, super::current().unwrap());
        assert!(epoch.len() > 36, "a boot id and perhaps a namespace: {epoch}");
    }
}
