//! The results, for people and for programs.

use std::{fmt::Write as _, process::Command};

use serde::{Deserialize, Serialize};

use crate::proof::plan::system_under_test::Guarantee;
use crate::proof::plan::system_under_test::SystemUnderTest;
use crate::proof::results::result::FaultResult;

/// The results of a kind of store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The name of the store.
    pub store: String,
    /// The name of the profile.
    pub profile: String,
    /// The commit of this project, if git knows it, with `+` if files were changed since.
    pub commit: String,
    /// How long the runs took, in seconds.
    pub lasted_s: u64,
    /// The `Guarantees` of the backend, if it could be reached.
    pub promised: Option<serde_json::Value>,
    /// The results of each fault.
    pub faults: Vec<FaultResult>,
}

impl Report {
    pub(crate) fn new(subject: &SystemUnderTest, profile: &str) -> Self {
        Self {
            store: subject.name.clone(),
            profile: profile.to_owned(),
            commit: commit(),
            lasted_s: 0,
            promised: None,
            faults: Vec::new(),
        }
    }

    /// Whether all is as it must be.
    #[must_use]
    pub fn is_right(&self) -> bool {
        !self.faults.is_empty() && self.faults.iter().all(FaultResult::is_right)
    }

    /// Guarantee × fault, with the figures below.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!("\n{}\n", self.store);
        let first = Guarantee::ALL.iter().map(|each| each.name().len()).max().unwrap_or(0);
        let line = |head: &str, cell: &dyn Fn(&FaultResult) -> String| {
            let mut line = format!("{head:first$}");
            for fault in &self.faults {
                let width = fault.fault.name().len().max(8);
                let _ = write!(line, "  {:width$}", cell(fault));
            }
            line.trim_end().to_owned() + "\n"
        };
        text += &line("", &|fault| fault.fault.name().to_owned());
        for guarantee in Guarantee::ALL {
            let word = |fault: &FaultResult| {
                let cell = fault.cells.get(guarantee);
                // Without a run there is no result; some guarantees do not apply.
                let none = if fault.cells.is_empty() { "not run" } else { "n/a" };
                cell.map_or(none, |cell| cell.word()).to_owned()
            };
            text += &line(guarantee.name(), &word);
        }
        text += &line("runs", &|fault| fault.seeds.len().to_string());
        text += &line("grants", &|fault| fault.granted.to_string());
        text += &line("losses reported", &|fault| fault.lost.to_string());
        text += &line("  at most late by, ms", &|fault| fault.reported_late_ms.to_string());
        text += &line("stale writes refused", &|fault| fault.stale_refused.to_string());
        let freed = |fault: &FaultResult| fault.freed_after_ms.map(|ms| ms.to_string());
        text += &line("held again after, ms", &|fault| freed(fault).unwrap_or_default());
        for fault in self.faults.iter().filter(|fault| !fault.happened.is_empty()) {
            let _ = writeln!(text, "  {}: {}", fault.fault, fault.happened);
        }
        for fault in &self.faults {
            if let Some(why) = &fault.failed {
                let _ = writeln!(text, "\n{}, {}: not run: {why}", self.store, fault.fault);
            }
            for violation in &fault.violations {
                let _ = write!(text, "\n{}, VIOLATED, {violation}", self.store);
            }
        }
        text
    }
}

/// The commit of the project, with `+` if files were changed since; or `not known`.
fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "not known".to_owned();
    };
    let changed = git(&["status", "--porcelain"]).is_none_or(|changes| !changes.is_empty());
    if changed { commit + "+" } else { commit }
}
