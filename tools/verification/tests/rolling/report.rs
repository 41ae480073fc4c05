//! The result of a rolling migration, in words and as a row of a table. `docs/migration-soak.md`
//! has the totals of all pairs.

use std::{fmt, time::Duration};

/// What came of one pair of stores.
pub(crate) struct Rolled {
    pub(crate) processes: u32,
    pub(crate) killed: u32,
    /// Processes two phases away that did not get in.
    pub(crate) refused: u32,
    pub(crate) grants: usize,
    /// Holds that outlived their lease.
    pub(crate) renewed: u32,
    pub(crate) writes: usize,
    /// Writes that the fence refused.
    pub(crate) stale: u32,
    pub(crate) violations: Vec<String>,
    pub(crate) took: Duration,
}

impl fmt::Display for Rolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processes, killed, refused, grants, renewed, writes, stale, .. } = self;
        write!(
            f,
            "{processes} processes, {killed} killed, {refused} refused two phases away; {grants} \
             grants, {renewed} renewed, {writes} writes, {stale} refused as stale; {} violations, in \
             {:.1} s",
            self.violations.len(),
            self.took.as_secs_f64()
        )
    }
}

impl Rolled {
    /// The row of this pair, with the same figures as in the totals of `docs/migration-soak.md`.
    pub(crate) fn row(&self, pair: &str) -> String {
        let Self { processes, killed, refused, grants, renewed, writes, stale, .. } = self;
        let (violations, seconds) = (self.violations.len(), self.took.as_secs());
        format!(
            "| {pair} | {processes} | {killed} | {refused} | {grants} | {renewed} | {writes} | {stale} \
             | {violations} | {seconds} |"
        )
    }
}
