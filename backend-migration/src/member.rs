//! One process of a migration.

use std::time::Duration;

use lock_core::OwnerLabel;
use serde::Serialize;

use crate::phase::Phase;

/// A process that keeps a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Member {
    /// Its phase. `None` if it uses a store that is neither of the two, or one of them under the
    /// identity that it had before it lost its data.
    pub phase: Option<Phase>,
    /// Its label.
    pub label: OwnerLabel,
    /// How long its record lasts if the process does not renew it.
    pub remaining: Duration,
}
