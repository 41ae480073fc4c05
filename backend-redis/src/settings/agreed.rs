//! The settings on which all clients of a store agree.

use std::time::Duration;

/// The settings in an epoch record, which all clients share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreedSettings {
    /// The longest lease.
    pub longest_lease: Duration,
    /// Whether a loss of data starts a quarantine.
    pub quarantine: bool,
}
