//! What the processes saw, and what the locks protected, judged together.

use std::path::Path;

use conformance_tests::history::{History, Rule, What, check};

use crate::{child::names, resource};

/// How much was tried, and what was wrong.
pub(crate) struct Tried {
    pub(crate) grants: usize,
    pub(crate) writes: usize,
    /// Each in words.
    pub(crate) violations: Vec<String>,
}

/// Exclusion, increasing tokens, no stale write, and no lost update.
pub(crate) fn judge(folder: &Path, processes: u32) -> Tried {
    let mut all = History::default();
    for number in 0..processes {
        let text = std::fs::read_to_string(folder.join(format!("history-{number}")));
        // One that was killed at once has written nothing, and one in the midst of a line half of
        // it.
        let text = text.unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        all = all.join(History::from_lines(whole).expect("a history"));
    }
    let rules = [Rule::WellFormed, Rule::Exclusion, Rule::Tokens, Rule::Resurrection];
    let found = check(&all, &rules);
    let mut violations: Vec<_> =
        found.iter().map(|violation| violation.with_events(&all).to_string()).collect();

    let mut writes = 0;
    for name in 0..names() {
        let lines = resource::lines(&folder.join(format!("job-{name}")));
        writes += lines.len();
        for pair in lines.windows(2) {
            if pair[0].token >= pair[1].token {
                violations.push(format!("a stale write to {name}: {pair:?}"));
            }
            if pair[1].read != pair[0].wrote {
                violations.push(format!("a lost update of {name}: {pair:?}"));
            }
        }
    }
    let grants =
        all.events().iter().filter(|event| matches!(event.what, What::Acquired { .. })).count();
    Tried { grants, writes, violations }
}
