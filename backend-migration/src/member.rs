//! One process of a migration.

use std::time::Duration;

use lock_core::OwnerLabel;
use serde::Serialize;

use crate::phase::Phase;

/// A process that keeps a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Member {
    /// Its phase; `None` where it uses a store that is neither of the two, or was one of them before
    /// that lost its data.
    pub phase: Option<Phase>,
    /// Its label.
    pub label: OwnerLabel,
    /// For how long its record lives on if it does not refresh it.
    pub remaining: Duration,
}
