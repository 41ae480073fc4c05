//! The constants that somebody may want to tune, with their reasons.

use std::time::Duration;

/// How long to measure by default: enough for the few stores that need no server.
pub(crate) const COMPARE: Duration = Duration::from_secs(30);
/// The same with `--local`, for all stores of this machine.
pub(crate) const COMPARE_LOCAL: Duration = Duration::from_secs(120);
