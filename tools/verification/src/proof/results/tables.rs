//! The table of fault × store in Markdown, made only of results, and of the reasons for faults
//! without results.

use std::fmt::Write as _;

use crate::proof::plan::fault::Fault;
use crate::proof::plan::system_under_test::SystemUnderTest;
use crate::proof::plan::system_under_test::Untried;
use crate::proof::results::report::Report;
use crate::proof::results::result::FaultResult;

/// Makes the table of these reports. `elsewhere` is the word for faults that only another profile
/// tries.
#[must_use]
pub fn matrix(subjects: &[SystemUnderTest], reports: &[Report], elsewhere: &str) -> String {
    let known: Vec<_> = subjects
        .iter()
        .filter_map(|subject| {
            let report = reports.iter().find(|report| report.store == subject.name);
            // If there are several reports, a store without one still has a column.
            Some((subject, report)).filter(|(_, report)| report.is_some() || reports.len() > 1)
        })
        .collect();
    let mut text = "| fault |".to_owned();
    for (subject, _) in &known {
        let _ = write!(text, " {} |", subject.name);
    }
    text += "\n|---|";
    text += &"---|".repeat(known.len());
    text += "\n";
    let mut reasons: Vec<&str> = Vec::new();
    for fault in Fault::ALL {
        let _ =
            write!(text, "| {} |", if *fault == Fault::None { "no fault" } else { fault.name() });
        for (subject, report) in &known {
            let result =
                report.and_then(|report| report.faults.iter().find(|each| each.fault == *fault));
            let word = match (result, subject.why_not(*fault)) {
                (Some(result), _) => FaultResult::in_short(result).to_owned(),
                (None, Some(why)) => reason(why, &mut reasons),
                (None, None) => elsewhere.to_owned(),
            };
            let _ = write!(text, " {word} |");
        }
        text += "\n";
    }
    for (number, why) in reasons.iter().enumerate() {
        let _ = write!(text, "\n{}. {why}", number + 1);
    }
    text + "\n"
}

/// The word for faults without a result, in a table for [`contradictions`].
pub const NOT_TRIED: &str = "…";

/// Compares the table between `<!-- proof -->` and `<!-- /proof -->` in a page with the table
/// `made`. Returns the lines of `made` that differ. Cells that are [`NOT_TRIED`] never differ.
#[must_use]
pub fn contradictions(page: &str, made: &str) -> Vec<String> {
    let table =
        page.split_once("<!-- proof -->").and_then(|(_, rest)| rest.split_once("<!-- /proof -->"));
    let Some((table, _)) = table else { return vec!["the page has no such table".to_owned()] };
    let (shown, made): (Vec<_>, Vec<_>) =
        (table.trim().lines().collect(), made.trim().lines().collect());
    let differs = |(shown, made): &(&&str, &&str)| {
        let (shown, made): (Vec<_>, Vec<_>) =
            (shown.split('|').collect(), made.split('|').collect());
        let same =
            |(shown, made): (&&str, &&str)| shown.trim() == made.trim() || made.trim() == NOT_TRIED;
        shown.len() != made.len() || !shown.iter().zip(&made).all(same)
    };
    let mut wrong: Vec<_> =
        shown.iter().zip(&made).filter(differs).map(|(_, made)| (*made).to_owned()).collect();
    if shown.len() != made.len() {
        wrong.push(format!("{} lines, not {}", made.len(), shown.len()));
    }
    wrong
}

fn reason(why: Untried, reasons: &mut Vec<&'static str>) -> String {
    let (word, why) = match why {
        Untried::As(other) => return format!("as {other}"),
        Untried::NotApplicable(why) => ("n/a", why),
        Untried::NotTried(why) => ("not tried", why),
    };
    let at = reasons.iter().position(|each| *each == why).unwrap_or_else(|| {
        reasons.push(why);
        reasons.len() - 1
    });
    format!("{word} ({})", at + 1)
}
