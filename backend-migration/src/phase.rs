//! How far a process is in a migration.

use std::fmt;

use serde::Serialize;

/// How far a process is in a migration. Processes in the same phase or in neighbouring phases may
/// run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Only the old store is used.
    Old,
    /// A lock is held in both stores or not at all.
    Both,
    /// Only the new store is used.
    New,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Old => "old",
            Self::Both => "both",
            Self::New => "new",
        })
    }
}
