//! What came of a rolling migration, in words and as a row of `docs/migration-soak.md`.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

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

const HEAD: &str = "\
# The rolling migration, soaked

Twelve processes contend on twenty names while they are moved one by one from phase `old` through `both` to `new`,
and back again, for every ordered pair of backend families, on real servers. One in three is killed before it is
moved, and others in between. A violation is two holders at once, a token that is not above the one before, a
lost lock that is believed again, a stale write that was let through, or an update that was lost. *Turned away*: processes
two phases away from others, which must not get in. *Renewed*: holds that outlived their lease of 1 s. *Stale*: late
writes that the fence refused, as it must.

Written by `LEASEHOLD_SOAK=1 cargo test -p conformance-tests --test migration_rolling`, a row per pair; not by hand.

| from-to | processes | killed | turned away | grants | renewed | writes | stale | violations | seconds | commit |
|---|---|---|---|---|---|---|---|---|---|---|
";

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/migration-soak.md")
}

/// The commit of this working tree, and whether it was changed since. To be asked before the first pair.
pub(crate) fn commit() -> String {
    let git = |args: &[&str]| {
        let output =
            Command::new("git").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(head) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".into() };
    let changed = git(&["status", "--porcelain", "--", "..", ":!../docs"]);
    if changed.is_none_or(|changed| changed.is_empty()) { head } else { format!("{head}, changed") }
}

/// Puts the row of a pair into the file, in place of an earlier one; `None` if it did not get on.
pub(crate) fn keep(pair: &str, rolled: Option<&Rolled>, commit: &str) {
    let row = match rolled {
        Some(rolled) => format!(
            "{} | {} | {} | {} | {} | {} | {} | {} | {:.0}",
            rolled.processes,
            rolled.killed,
            rolled.refused,
            rolled.grants,
            rolled.renewed,
            rolled.writes,
            rolled.stale,
            rolled.violations.len(),
            rolled.took.as_secs_f64()
        ),
        None => "**did not get on** | | | | | | | |".into(),
    };
    let text = std::fs::read_to_string(path()).unwrap_or_default();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let mut rows: BTreeMap<_, _> = rows
        .filter(|(pair, _)| *pair != "from-to")
        .map(|(pair, row)| (pair.to_owned(), row.to_owned()))
        .collect();
    rows.insert(pair.into(), format!("{row} | {commit} |"));
    let rows: String = rows.iter().map(|(pair, row)| format!("| {pair} | {row}\n")).collect();
    std::fs::write(path(), format!("{HEAD}{rows}")).expect("the file of results");
}
