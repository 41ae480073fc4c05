//! The results of one fault over all its runs.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::proof::judging::judge::{Figures, judge};
use crate::proof::judging::timeline::Timeline;
use crate::proof::plan::fault::Fault;
use crate::proof::plan::system_under_test::{Expected, Guarantee, SystemUnderTest};
use crate::proof::trial::findings::RunData;

/// How many violations of one guarantee are reported in full.
const TOLD: usize = 3;

/// One cell of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// It held in every run.
    Held,
    /// It was promised, and broken.
    Violated,
    /// It is withheld, and was seen broken.
    Broken,
    /// It is withheld, must be seen broken, and was not: the fault has proved nothing.
    NotSeen,
    /// It is withheld, and was not seen broken.
    Untouched,
}

impl Cell {
    fn of(expected: Expected, broken: bool) -> Self {
        match (expected, broken) {
            (Expected::Holds, false) => Self::Held,
            (Expected::Holds, true) => Self::Violated,
            (Expected::Broken | Expected::Open, true) => Self::Broken,
            (Expected::Broken, false) => Self::NotSeen,
            (Expected::Open, false) => Self::Untouched,
        }
    }

    /// Whether it is as it must be.
    #[must_use]
    pub fn is_right(self) -> bool {
        !matches!(self, Self::Violated | Self::NotSeen)
    }

    /// The word in the table.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "holds",
            Self::Violated => "VIOLATED",
            Self::Broken => "broken",
            Self::NotSeen => "NOT SEEN",
            Self::Untouched => "-",
        }
    }
}

/// A fault's results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FaultResult {
    /// The fault.
    pub fault: Fault,
    /// The result of each guarantee.
    pub cells: BTreeMap<Guarantee, Cell>,
    /// The violations, with the seed and the events of the acquisitions that took part.
    pub violations: Vec<String>,
    /// Why the first failed run could not be made.
    pub failed: Option<String>,
    /// How many runs could not be made.
    pub runs_failed: u64,
    /// How the fault is known to have happened, in the last run.
    pub happened: String,
    /// The seeds of the runs.
    pub seeds: Vec<u64>,
    /// Acquisitions that were begun.
    pub asked: u64,
    /// Grants.
    pub granted: u64,
    /// Losses that guards reported.
    pub lost: u64,
    /// Acquisitions that failed with an error of the store, or in its quarantine.
    #[serde(default)]
    pub errors: u64,
    /// Acquisitions that certainly had a queue entry of their own.
    pub queued: u64,
    /// Writes that a fence refused.
    pub stale_refused: u64,
    /// The longest time from the end of a validity until the guard reported it, in milliseconds.
    pub reported_late_ms: u64,
    /// The longest time from the fault until the victim's lock was held again, if the victim lost
    /// it, in milliseconds.
    pub freed_after_ms: Option<u64>,
    /// The holders of the victim's lock around the fault, in the last run, or in one that broke
    /// something.
    pub timeline: Option<Timeline>,
}

impl FaultResult {
    pub(crate) fn new(fault: Fault) -> Self {
        Self {
            fault,
            cells: BTreeMap::new(),
            violations: Vec::new(),
            failed: None,
            runs_failed: 0,
            happened: String::new(),
            seeds: Vec::new(),
            asked: 0,
            granted: 0,
            lost: 0,
            errors: 0,
            queued: 0,
            stale_refused: 0,
            reported_late_ms: 0,
            freed_after_ms: None,
            timeline: None,
        }
    }

    /// Adds a run.
    pub(crate) fn add(&mut self, subject: &SystemUnderTest, data: &RunData) {
        let (findings, figures) = judge(data);
        self.seeds.push(data.seed);
        self.happened.clone_from(&data.happened);
        self.count(&figures, data.freed_after);
        if !self.broke() {
            self.timeline = Timeline::of(data).or(self.timeline.take());
        }
        let judged = |guarantee: &Guarantee| data.judges(*guarantee);
        for guarantee in Guarantee::ALL.iter().copied().filter(judged) {
            let found: Vec<_> =
                findings.iter().filter(|each| each.guarantee == guarantee).collect();
            let expected = match subject.expects(data.fault, guarantee) {
                Expected::Holds if guarantee == Guarantee::Unfenced && data.crowded => {
                    Expected::Open
                }
                expected => expected,
            };
            let cell = Cell::of(expected, !found.is_empty());
            let before = self.cells.get(&guarantee).copied();
            // A violation or a break in one run counts for all runs.
            let seen = before.filter(|cell| matches!(cell, Cell::Broken | Cell::Violated));
            self.cells.insert(guarantee, seen.unwrap_or(cell));
            if cell == Cell::Violated {
                for finding in found.iter().take(TOLD) {
                    self.violations.push(in_words(data, &finding.what, &finding.ops));
                }
            }
        }
    }

    /// Whether a run broke something, whether it had to or not.
    pub(crate) fn broke(&self) -> bool {
        self.cells.values().any(|cell| matches!(cell, Cell::Broken | Cell::Violated))
    }

    /// Counts a run that could not be made.
    pub(crate) fn fail(&mut self, why: String) {
        self.runs_failed += 1;
        self.failed.get_or_insert(why);
    }

    fn count(&mut self, figures: &Figures, freed_after: Option<Duration>) {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.asked += figures.asked;
        self.granted += figures.granted;
        self.lost += figures.lost;
        self.errors += figures.errors;
        self.queued += figures.queued;
        self.stale_refused += figures.stale_refused;
        self.reported_late_ms = self.reported_late_ms.max(millis(figures.reported_late));
        self.freed_after_ms = self.freed_after_ms.max(freed_after.map(millis));
    }

    /// Whether all is as it must be.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.failed.is_none() && self.cells.values().all(|cell| cell.is_right())
    }

    /// What holds under this fault, in a word or two.
    #[must_use]
    pub fn in_short(&self) -> &'static str {
        if !self.is_right() {
            return "FAILED";
        }
        let broken = |guarantee| self.cells.get(&guarantee) == Some(&Cell::Broken);
        match (broken(Guarantee::Exclusion), broken(Guarantee::Tokens)) {
            (false, false) => "holds",
            (true, false) => "two holders",
            (false, true) => "tokens repeat",
            (true, true) => "two holders, tokens repeat",
        }
    }
}

/// A violation in words, with its seed, its fault and all events of the acquisitions that took
/// part.
fn in_words(data: &RunData, what: &str, ops: &[conformance_tests::history::Op]) -> String {
    let mut text = format!("seed {}, {}: {what}\n", data.seed, data.fault);
    for event in data.history.events().iter().filter(|event| ops.contains(&event.op)) {
        text.push_str(&format!("    {event}\n"));
    }
    text
}
