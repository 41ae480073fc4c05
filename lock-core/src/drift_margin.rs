//! The margin for clocks whose rates differ.

use std::time::Duration;

use crate::tunables::{DRIFT_PART, ROUNDING};

/// The margin that a holder subtracts from every lease (S3): 1% of the lease and 2 ms.
///
/// Both the store's clock and the holder's clock count the lease. Their rates may differ by 1%. The
/// 2 ms cover the rounding of stores that count milliseconds.
#[must_use]
pub fn drift_margin(lease: Duration) -> Duration {
    lease / DRIFT_PART + ROUNDING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_one_percent_and_two_milliseconds() {
        assert_eq!(drift_margin(Duration::from_secs(10)), Duration::from_millis(102));
    }
}
