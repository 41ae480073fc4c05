//! Finds in a history what the contract forbids.

mod exclusion;
mod fairness;
mod hand_over;
mod permits;
#[cfg(test)]
mod samples;
mod tokens;
mod updates;

use std::fmt;

use super::{History, Holds, Op, What};

/// A rule that a history must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Each acquisition begins once, is answered once, and has an owner that no other one has.
    WellFormed,
    /// S1: what two holders of one name believed never overlaps.
    Exclusion,
    /// S1: a semaphore has at most as many holders as permits.
    Permits,
    /// S2: tokens strictly increase over the grants of a name. Beside [`Rule::Exclusion`] also in
    /// the order in which guards were valid: where a store may have two holders, their answers may
    /// arrive in another order than their grants.
    Tokens,
    /// S5: a guard that was seen invalid stays so, and its release does not succeed.
    Resurrection,
    /// A detached lock gets one guard at most, with the same token, and its former guard is gone.
    HandOver,
    /// L3: no client is served before another that waited longer.
    Fairness,
    /// At a fenced resource no update is lost and no stale write admitted.
    LostUpdate,
}

/// Every rule. A history without [`What::Queued`] always keeps the rule of fairness.
pub const ALL_RULES: &[Rule] = &[
    Rule::WellFormed,
    Rule::Exclusion,
    Rule::Permits,
    Rule::Tokens,
    Rule::Resurrection,
    Rule::HandOver,
    Rule::Fairness,
    Rule::LostUpdate,
];

/// A violation of a rule, with the acquisitions that took part.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What happened, in words.
    pub what: String,
    /// The acquisitions that took part.
    pub ops: Vec<Op>,
}

impl Violation {
    pub(crate) fn new(rule: Rule, what: String, ops: impl Into<Vec<Op>>) -> Self {
        Self { rule, what, ops: ops.into() }
    }

    /// The violation with every event of the acquisitions that took part.
    #[must_use]
    pub fn with_events(&self, history: &History) -> String {
        let mut text = format!("{self}\n");
        for event in history.events().iter().filter(|event| self.ops.contains(&event.op)) {
            text.push_str(&format!("    {event}\n"));
        }
        text
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} broken: {}", self.rule, self.what)
    }
}

/// Checks `history` for `rules`; returns all violations.
#[must_use]
pub fn check(history: &History, rules: &[Rule]) -> Vec<Violation> {
    let holds = Holds::of(history);
    let mut found = Vec::new();
    for rule in rules {
        match rule {
            Rule::WellFormed => well_formed(&holds, &mut found),
            Rule::Exclusion => exclusion::check(&holds, &mut found),
            Rule::Permits => permits::check(&holds, &mut found),
            Rule::Tokens => {
                tokens::check(&holds, rules.contains(&Rule::Exclusion), &mut found);
            }
            Rule::Resurrection => resurrection(history, &mut found),
            Rule::HandOver => hand_over::check(history, &mut found),
            Rule::Fairness => fairness::check(&holds, &mut found),
            Rule::LostUpdate => updates::check(history, &mut found),
        }
    }
    found
}

/// Checks `history` and panics if there is a violation. The message has all violations with their
/// events.
///
/// # Panics
/// If a rule is broken.
pub fn assert_clean(history: &History, rules: &[Rule]) {
    let found = check(history, rules);
    if !found.is_empty() {
        let text: String = found.iter().map(|violation| violation.with_events(history)).collect();
        panic!("{} violations:\n{text}", found.len());
    }
}

fn well_formed(holds: &Holds, found: &mut Vec<Violation>) {
    for event in &holds.misfits {
        let what = format!("an event that does not fit: {event}");
        found.push(Violation::new(Rule::WellFormed, what, [event.op]));
    }
    let mut owners = std::collections::HashMap::new();
    for attempt in holds.by_name.values().flatten() {
        let Some(hold) = &attempt.hold else { continue };
        if let Some(other) = owners.insert(hold.owner, attempt.op) {
            let what =
                format!("owner {} was used twice, by {other} and {}", hold.owner, attempt.op);
            found.push(Violation::new(Rule::WellFormed, what, [other, attempt.op]));
        }
    }
}

fn resurrection(history: &History, found: &mut Vec<Violation>) {
    let mut lost = std::collections::HashSet::new();
    for event in history.events() {
        let alive = match &event.what {
            What::Lost { .. }
            | What::Looked { until: None }
            | What::Acquired { until: None, .. } => {
                lost.insert(event.op);
                None
            }
            What::Looked { until: Some(_) } => Some("was seen valid"),
            What::Released { failed: None } => Some("was released with success"),
            _ => None,
        };
        if let Some(alive) = alive.filter(|_| lost.contains(&event.op)) {
            let what = format!("the guard of {} {alive} after it had reported its loss", event.op);
            found.push(Violation::new(Rule::Resurrection, what, [event.op]));
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::LossReason;

    use super::{samples::Sample, *};

    #[test]
    fn a_guard_that_comes_back_is_found() {
        let lost = |sample: Sample| sample.acquired(10, 1, 20).look(12, 30).look_lost(25);
        assert_eq!(check(&lost(Sample::new()).history(), ALL_RULES).len(), 0);
        let back = lost(Sample::new()).look(26, 40).history();
        assert_eq!(check(&back, ALL_RULES)[0].rule, Rule::Resurrection);
        let reported = Sample::new().acquired(10, 1, 20).lost(15, LossReason::Gone);
        let released = reported.released(16, None).history();
        let found = check(&released, &[Rule::Resurrection]);
        assert_eq!(found[0].rule, Rule::Resurrection);
        assert!(found[0].with_events(&released).contains("Released"));
        let refused = Sample::new().acquired(10, 1, 20).lost(15, LossReason::Gone);
        assert!(check(&refused.released(16, Some("lost")).history(), ALL_RULES).is_empty());
    }

    #[test]
    fn an_owner_used_twice_and_a_second_answer_are_found() {
        let twice = Sample::new().acquired(10, 1, 20).given_up(15).ask(30);
        let twice = twice.acquired_by(1_000, 31, 2, 40).history();
        assert_eq!(check(&twice, ALL_RULES)[0].rule, Rule::WellFormed);
        let answered = Sample::new().acquired(10, 1, 20).given_up(12).acquired(13, 2, 30).history();
        assert_eq!(check(&answered, ALL_RULES)[0].rule, Rule::WellFormed);
    }

    #[test]
    #[should_panic(expected = "Exclusion broken")]
    fn asserting_names_the_rule() {
        let two = Sample::new().acquired(10, 1, 20).ask(11).acquired(12, 2, 22);
        assert_clean(&two.history(), ALL_RULES);
    }
}
