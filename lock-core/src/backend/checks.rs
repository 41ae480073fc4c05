//! Checks that all backends share.

use std::time::Duration;

use crate::{Error, ErrorKind, FencingToken};

/// Refuses a duration that is not between `least` and `most`, both included. The message calls it
/// `what`.
///
/// # Errors
/// `InvalidInput`, naming the duration and both bounds.
pub fn check_span(
    what: &str,
    span: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), Error> {
    if (least..=most).contains(&span) {
        return Ok(());
    }
    let [span, least, most] = [span, least, most].map(humantime::format_duration);
    let message = format!("{what} {span} must be between {least} and {most}");
    Err(Error::new(ErrorKind::InvalidInput, message))
}

/// Refuses a lease above the store's longest lease, because it would outlast a quarantine.
///
/// The client has checked the lease before, but the store's settings may have changed since.
///
/// # Errors
/// `InvalidInput`, naming both durations.
pub fn check_lease(lease: Duration, longest: Duration) -> Result<(), Error> {
    if lease <= longest {
        return Ok(());
    }
    let [asked, allowed] = [lease, longest].map(humantime::format_duration);
    let message = format!("lease {asked} is longer than this store's longest lease, {allowed}");
    Err(Error::new(ErrorKind::InvalidInput, message))
}

/// Refuses a token, such as a floor, that leads the store's clock by more than the store's longest
/// lease.
///
/// After a loss of data, the quarantine lasts one longest lease. Then the clock must be past every
/// earlier token. `clock` is in microseconds since 1970.
///
/// # Errors
/// `InvalidInput`, naming the largest token that is allowed.
pub fn check_token(token: FencingToken, clock: u64, longest: Duration) -> Result<(), Error> {
    // An operator may set any longest lease, even `Duration::MAX`.
    let limit = clock.saturating_add(u64::try_from(longest.as_micros()).unwrap_or(u64::MAX));
    if token.get() <= limit {
        return Ok(());
    }
    let message = format!(
        "token {token} leads the clock by more than the longest lease; it must be at most {limit}"
    );
    Err(Error::new(ErrorKind::InvalidInput, message))
}

/// Refuses records of another version than `known`. `stored` is the version as read from the store.
///
/// # Errors
/// `Config`, naming both versions and what to do.
pub fn check_record_version(stored: &str, known: u64) -> Result<(), Error> {
    let version = stored.parse::<u64>().ok();
    if version == Some(known) {
        return Ok(());
    }
    let helps = match version {
        Some(version) if version < known => "`leasehold init` upgrades them",
        _ => "upgrade leasehold",
    };
    let shown = || format!("{:?}", stored.chars().take(20).collect::<String>());
    let stored = version.map_or_else(shown, |version| version.to_string());
    let message = format!(
        "the store's records have version {stored}; this leasehold knows version {known}; {helps}"
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// The duration in whole milliseconds, rounded up and at least 1.
///
/// Rounded down, a lease in the store would be shorter than its holder believes.
#[must_use]
pub fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_out_of_range_is_refused_with_the_range() {
        let seconds = Duration::from_secs;
        for span in [1, 2, 3] {
            check_span("timeout", seconds(span), seconds(1), seconds(3)).unwrap();
        }
        for span in [0, 4] {
            let error = check_span("timeout", seconds(span), seconds(1), seconds(3)).unwrap_err();
            let expected = format!("timeout {span}s must be between 1s and 3s");
            assert!(error.to_string().ends_with(&expected), "{error}");
        }
    }

    #[test]
    fn records_of_another_version_are_refused_with_what_to_do() {
        check_record_version("2", 2).unwrap();
        for (stored, expected) in [
            ("1", "version 1; this leasehold knows version 2; `leasehold init` upgrades them"),
            ("3", "version 3; this leasehold knows version 2; upgrade leasehold"),
            ("x\n", "version \"x\\n\"; this leasehold knows version 2; upgrade leasehold"),
        ] {
            let error = check_record_version(stored, 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().ends_with(expected), "{error}");
        }
    }

    #[test]
    fn milliseconds_are_rounded_up() {
        let millis = |nanos| whole_millis(Duration::from_nanos(nanos));
        assert_eq!([0, 1, 1_000_000, 1_000_001].map(millis), [1, 1, 1, 2]);
        assert_eq!(whole_millis(Duration::MAX), u64::MAX);
    }
}
