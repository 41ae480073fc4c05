//! S2: tokens strictly increase over the grants of a name. Readers that hold at the same time may
//! have the same token, and the tokens of readers never go back over time.
//!
//! An attached lock keeps its token.
//!
//! An observer knows the store's order of two grants in two cases: one was returned before the
//! other was requested (and inherited no older queue entry); or both guards were valid, and one
//! became valid before the other.

use std::collections::HashMap;

use lock_core::{FencingToken, Instant, Mode};

use super::{Rule, Violation};
use crate::history::{Attempt, Holds, Op};

/// `exclusive`: the store promises that no two hold a name at once.
pub(super) fn check(holds: &Holds, exclusive: bool, found: &mut Vec<Violation>) {
    for attempts in holds.by_name.values() {
        by_answers(attempts, found);
        if exclusive {
            by_belief(attempts, found);
        }
        unique(attempts, found);
    }
}

/// An answer that came before another acquisition began has the smaller token.
fn by_answers(attempts: &[Attempt], found: &mut Vec<Violation>) {
    let mut answers: Vec<(Instant, FencingToken, Op, bool)> = attempts
        .iter()
        .filter_map(|attempt| {
            let token = attempt.hold.as_ref().map(|hold| hold.token).or(attempt.busy)?;
            let writer = attempt.hold.is_some() && attempt.mode == Mode::Exclusive;
            Some((attempt.ended?, token, attempt.op, writer))
        })
        .collect();
    answers.sort();
    let mut answers = answers.into_iter().peekable();
    // The highest token of all answers, and of writers only: a reader's token must be above it.
    // `Busy` may have named a token of readers.
    let mut highest: Option<(FencingToken, Op)> = None;
    let mut writers: Option<(FencingToken, Op)> = None;
    let mut by_entry: Vec<&Attempt> = attempts.iter().collect();
    by_entry.sort_by_key(|attempt| attempt.entry_since);
    for attempt in by_entry {
        while let Some((_, token, op, writer)) =
            answers.next_if(|(at, ..)| *at < attempt.entry_since)
        {
            highest = highest.max(Some((token, op)));
            if writer {
                writers = writers.max(Some((token, op)));
            }
        }
        let Some(hold) = &attempt.hold else { continue };
        let reads = attempt.mode == Mode::Shared;
        let equal = match attempt.attaches {
            Some(_) => None,
            None if reads => writers,
            None => highest,
        };
        let lower = highest.filter(|(token, _)| hold.token < *token);
        if let Some(earlier) = equal.filter(|(token, _)| hold.token <= *token).or(lower) {
            let (token, op) = earlier;
            found.push(violation(attempts, (op, token), (attempt.op, hold.token)));
        }
    }
}

/// Of two guards that were valid, the one that was valid first was granted first.
fn by_belief(attempts: &[Attempt], found: &mut Vec<Violation>) {
    let holds = attempts.iter().filter_map(|attempt| Some((attempt, attempt.hold.as_ref()?)));
    let mut believed: Vec<_> = holds.filter(|(_, hold)| hold.believed()).collect();
    believed.sort_by_key(|(_, hold)| hold.from);
    for pair in believed.windows(2) {
        let [(one, held), (two, hold)] = pair else { continue };
        // Of readers that hold at the same time, the last one granted may get its answer first.
        let ordered = held.from < hold.from && !one.mode.goes_with(two.mode);
        let kept = two.attaches.is_some() && hold.token == held.token;
        if ordered && hold.token <= held.token && !kept {
            found.push(violation(attempts, (one.op, held.token), (two.op, hold.token)));
        }
    }
}

fn unique(attempts: &[Attempt], found: &mut Vec<Violation>) {
    let mut seen = HashMap::new();
    for attempt in attempts.iter().filter(|attempt| attempt.attaches.is_none()) {
        let Some(hold) = &attempt.hold else { continue };
        let other = seen.insert(hold.token, (attempt.op, attempt.mode));
        if let Some((other, _)) = other.filter(|(_, mode)| !mode.goes_with(attempt.mode)) {
            found.push(violation(attempts, (other, hold.token), (attempt.op, hold.token)));
        }
    }
}

fn violation(
    attempts: &[Attempt],
    (one, first): (Op, FencingToken),
    (two, second): (Op, FencingToken),
) -> Violation {
    let name = attempts.first().map_or("", |attempt| attempt.name.as_str());
    let what = format!(
        "tokens of {name:?} must increase: {one} saw {first}, and {two}, which came later, got {second}"
    );
    Violation::new(Rule::Tokens, what, [one, two])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::samples::*, *};
    use crate::history::{History, check};

    fn broken(history: &History) -> usize {
        let found = check(history, &[Rule::Exclusion, Rule::Tokens]);
        found.iter().filter(|violation| violation.rule == Rule::Tokens).count()
    }

    #[test]
    fn a_token_that_goes_back_is_found() {
        let two = |second: u64| {
            let first = Sample::new().acquired(10, 5, 20).given_up(12);
            first.ask(13).acquired(14, second, 30).history()
        };
        assert_eq!(broken(&two(6)), 0);
        assert!(broken(&two(4)) > 0);
        assert!(broken(&two(5)) > 0);
    }

    #[test]
    fn it_is_found_between_acquisitions_that_overlap_in_time() {
        // Both asked at once; the first believed first.
        let two = Sample::new().acquired(10, 5, 20).given_up(12).ask(1).acquired(14, 4, 30);
        let two = two.history();
        assert!(broken(&two) > 0);
        // Without exclusion the second may have been granted first, and lost by the store.
        assert!(check(&two, &[Rule::Tokens]).is_empty());
    }

    #[test]
    fn it_is_found_across_a_guard_that_was_never_believed() {
        // The first had expired when its holder woke up; its token still came first.
        let two = Sample::new().acquired(30, 5, 20).ask(31).acquired(32, 4, 40);
        assert!(broken(&two.history()) > 0);
        // But where both were asked for at once, the order is unknown.
        let unknown = Sample::new().acquired(30, 5, 20).ask(1).acquired(32, 4, 40);
        assert_eq!(broken(&unknown.history()), 0);
        // Nor where the second may have got an entry from one that had asked before.
        let heir = Sample::new().acquired(30, 5, 20).ask_in(1, 1).ask_in(1, 31);
        let heir = heir.acquired(33, 4, 40).earlier(1).cancelled(32);
        assert_eq!(broken(&heir.history()), 0);
    }

    #[test]
    fn readers_may_share_a_token_that_no_writer_has() {
        let reader = |sample: Sample, ask: u64, token: u64| {
            sample.ask_shared(ask).acquired(ask + 1, token, ask + 10).given_up(ask + 2)
        };
        let writer = |sample: Sample, ask: u64, token: u64| {
            sample.ask(ask).acquired(ask + 1, token, ask + 10).given_up(ask + 2)
        };
        let start = || writer(Sample::new().cancelled(1), 2, 5);
        let two = |first, second| reader(reader(start(), 10, first), 20, second);
        assert_eq!(broken(&two(6, 6).history()), 0);
        assert_eq!(broken(&two(6, 7).history()), 0);
        assert!(broken(&two(7, 6).history()) > 0, "readers' tokens went back");
        assert!(broken(&two(5, 5).history()) > 0, "the last writer's token");
        assert_eq!(broken(&writer(two(6, 6), 30, 7).history()), 0);
        assert!(broken(&writer(two(6, 6), 30, 6).history()) > 0, "the readers' token");
    }

    #[test]
    fn a_busy_answer_tells_of_a_token_too() {
        let after = |value| {
            let busy = Sample::new().busy(5, 10);
            broken(&busy.ask_in(1, 6).acquired(7, value, 20).history())
        };
        assert_eq!(after(11), 0);
        assert!(after(10) > 0);
    }

    proptest! {
        #[test]
        fn the_sweep_finds_what_comparing_all_pairs_finds(
            grants in proptest::collection::vec((0_u64..40, 1_u64..6, 0_u64..4), 1..16)
        ) {
            // (asked, answered after, shift of the token against the order of the list)
            let mut sample = Sample::new().cancelled(1);
            let mut list = Vec::new();
            for (at, (asked, after, shift)) in grants.iter().enumerate() {
                let value = (at as u64 * 5 + 20 - shift * 4) * 100 + at as u64;
                // Ends at once, so that only the order of the answers counts.
                sample = sample.ask_in(1, *asked).acquired(asked + after, value, 0);
                list.push((*asked, asked + after, value));
            }
            let pairs = list.iter().any(|one| {
                list.iter().any(|two| one.1 < two.0 && two.2 <= one.2)
            });
            prop_assert_eq!(broken(&sample.history()) > 0, pairs);
        }
    }
}
