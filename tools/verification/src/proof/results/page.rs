//! Reads results that `--json` wrote, and makes a page of Markdown of them.

use std::{fmt::Write as _, path::PathBuf};

use crate::proof::plan::system_under_test::Guarantee;
use crate::proof::plan::system_under_test::SystemUnderTest;
use crate::proof::results::report::Report;
use crate::proof::results::result::Cell;
use crate::proof::results::result::FaultResult;
use crate::proof::results::tables::matrix;

/// Reads what `--json` wrote.
///
/// # Errors
/// In words: the file that cannot be read or understood.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Report>, String> {
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        let reports: Vec<Report> =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        all.extend(reports);
    }
    Ok(all)
}

/// A page of Markdown: the table, and the figures of each fault.
#[must_use]
pub fn page(subjects: &[SystemUnderTest], reports: &[Report]) -> String {
    let mut text = matrix(subjects, reports, "not run");
    let _ = writeln!(
        text,
        "\n| store | commit | lasted | runs | grants | through the queue | losses reported | stale writes refused |\n\
         |---|---|---|---|---|---|---|---|"
    );
    for report in reports {
        let sum = |of: fn(&FaultResult) -> u64| report.faults.iter().map(of).sum::<u64>();
        let _ = writeln!(
            text,
            "| {} | {} | {} min | {} | {} | {} | {} | {} |",
            report.store,
            report.commit,
            report.lasted_s / 60,
            sum(|fault| fault.seeds.len() as u64),
            sum(|fault| fault.granted),
            sum(|fault| fault.queued),
            sum(|fault| fault.lost),
            sum(|fault| fault.stale_refused),
        );
    }
    for report in reports {
        text += &figures(report);
    }
    text
}

fn figures(report: &Report) -> String {
    let mut text = format!("\n### {}\n\n", report.store);
    text += "| fault | runs | first seed | grants | losses reported | late by at most, ms | held again \
             after at most, ms | not as promised | how it is known to have happened |\n";
    text += "|---|---|---|---|---|---|---|---|---|\n";
    for fault in &report.faults {
        let odd = Guarantee::ALL.iter().filter_map(|guarantee| {
            let cell = fault.cells.get(guarantee).filter(|cell| **cell != Cell::Held)?;
            let idle = *cell == Cell::Untouched;
            (!idle).then(|| format!("{}: {}", guarantee.name(), cell.word()))
        });
        let odd: Vec<_> = odd.collect();
        let first = fault.seeds.first().map(u64::to_string).unwrap_or_default();
        let freed = fault.freed_after_ms.map(|ms| ms.to_string()).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {} | {first} | {} | {} | {} | {freed} | {} | {} |",
            fault.fault,
            fault.seeds.len(),
            fault.granted,
            fault.lost,
            fault.reported_late_ms,
            odd.join("; "),
            fault.happened,
        );
    }
    for fault in &report.faults {
        if let Some(why) = &fault.failed {
            let _ = writeln!(
                text,
                "\n{}: {} runs could not be made, the first: {why}",
                fault.fault, fault.runs_failed
            );
        }
        for violation in &fault.violations {
            let _ = writeln!(text, "\nVIOLATED:\n\n```text\n{}\n```", violation.trim_end());
        }
    }
    text
}
