//! The results, for people and for programs.

use std::fmt::Write as _;

use lock_core::Guarantees;
use serde::Serialize;

use super::{Fault, FaultResult, Guarantee};

/// The results of a kind of store.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Which store.
    pub store: String,
    /// What its backend says that it promises, if it was reached.
    pub promised: Option<Guarantees>,
    /// What came of each fault.
    pub faults: Vec<FaultResult>,
}

impl Report {
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
                cell.map_or("not run", |cell| cell.word()).to_owned()
            };
            text += &line(guarantee.name(), &word);
        }
        text += &line("runs", &|fault| fault.seeds.len().to_string());
        text += &line("grants", &|fault| fault.granted.to_string());
        text += &line("losses told", &|fault| fault.lost.to_string());
        text += &line("  at most late by, ms", &|fault| fault.told_after_ms.to_string());
        text += &line("stale writes refused", &|fault| fault.stale_refused.to_string());
        let freed = |fault: &FaultResult| fault.freed_after_ms.map(|ms| ms.to_string());
        text += &line("held again after, ms", &|fault| freed(fault).unwrap_or_default());
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

/// Store × fault in Markdown, as the README has it: made only of these results.
#[must_use]
pub fn readme(reports: &[Report]) -> String {
    let faults = Fault::ALL;
    let mut text = "| store |".to_owned();
    for fault in faults {
        let head = if *fault == Fault::None { "no fault" } else { fault.name() };
        let _ = write!(text, " {head} |");
    }
    text += "\n|---|";
    text += &"---|".repeat(faults.len());
    text += "\n";
    for report in reports {
        let _ = write!(text, "| {} |", report.store);
        for fault in faults {
            let result = report.faults.iter().find(|each| each.fault == *fault);
            match result.map(FaultResult::in_short) {
                Some(word) => text += &format!(" {word} |"),
                None => text += " |",
            }
        }
        text += "\n";
    }
    text
}
