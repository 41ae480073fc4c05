//! Points in time on a clock that also counts while the machine is suspended.

use std::{
    fmt,
    ops::{Add, Sub},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

/// A point in time on the clock of an [`Env`](crate::Env): nanoseconds since an arbitrary start, by
/// `CLOCK_BOOTTIME` on Linux.
///
/// `std::time::Instant` stops during suspend on Linux, so a holder would believe a lease for too
/// long. All arithmetic saturates, so `lease - elapsed` never wraps to a huge validity.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Instant(u64);

impl Instant {
    /// A point `nanos` nanoseconds after the clock's start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The last second of the year 9999.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// A point in time on a store's wall clock: microseconds since 1970.
///
/// Times of the same store can be compared, as far as its clock runs evenly; times of two stores
/// differ as their clocks do. All arithmetic saturates.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct StoreTime(u64);

impl StoreTime {
    /// Before every other time.
    pub const EVER: Self = Self(0);

    /// A point `micros` microseconds after the start of 1970.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the start of 1970.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// As people write it, in UTC and with whole seconds: `2026-11-27T02:00:00Z`.
impl fmt::Display for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The form has four digits for the year.
        let micros = Duration::from_micros(self.0).min(LAST_SECOND);
        humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + micros).fmt(f)
    }
}

impl Add<Duration> for StoreTime {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let early = Instant::from_nanos(5);
        let late = early + Duration::from_nanos(7);
        assert_eq!(late.since(early), Duration::from_nanos(7));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early - Duration::from_secs(1), Instant::from_nanos(0));
        assert_eq!(late + Duration::MAX, Instant::from_nanos(u64::MAX));

        let (early, late) = (StoreTime::from_micros(5), StoreTime::from_micros(12));
        assert_eq!(late.since(early), Duration::from_micros(7));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!((late + Duration::MAX).as_micros(), u64::MAX);
    }

    #[test]
    fn every_time_of_a_store_can_be_shown() {
        let shown = |micros| StoreTime::from_micros(micros).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(1_795_744_799_999_999), "2026-11-27T01:59:59Z");
        assert_eq!(shown(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
