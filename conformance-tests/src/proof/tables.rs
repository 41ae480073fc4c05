//! Fault × store in Markdown: made only of results, and of the reasons for what has none.

use std::fmt::Write as _;

use super::{Absent, Fault, FaultResult, Report, Subject};

/// The table of these reports; `elsewhere` stands where another profile tries a fault.
#[must_use]
pub fn matrix(subjects: &[Subject], reports: &[Report], elsewhere: &str) -> String {
    let known: Vec<_> = subjects
        .iter()
        .filter_map(|subject| {
            let report = reports.iter().find(|report| report.store == subject.name);
            // A store without a run still has its column, where the others of the list are told.
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

fn reason(why: Absent, reasons: &mut Vec<&'static str>) -> String {
    let (word, why) = match why {
        Absent::As(other) => return format!("as {other}"),
        Absent::NotApplicable(why) => ("n/a", why),
        Absent::NotTried(why) => ("not tried", why),
    };
    let at = reasons.iter().position(|each| *each == why).unwrap_or_else(|| {
        reasons.push(why);
        reasons.len() - 1
    });
    format!("{word} ({})", at + 1)
}
