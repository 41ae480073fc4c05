//! S1: the times in which two guards of one name are valid never overlap, unless both are readers.

use lock_core::Mode;

use super::{Rule, Violation};
use crate::history::{Attempt, Hold, Holds};

pub(super) fn check(holds: &Holds, found: &mut Vec<Violation>) {
    for attempts in holds.by_name.values() {
        let mut believed: Vec<(&Attempt, &Hold)> = believed(attempts).collect();
        believed.sort_by_key(|(_, hold)| hold.from);
        // The holds are sorted by begin. So a hold that overlaps any earlier hold overlaps the one
        // that ends last. Readers and writers are kept apart.
        let mut last: [Option<(&Attempt, &Hold)>; 2] = [None, None];
        for (attempt, hold) in believed {
            for (other, held) in last.into_iter().flatten() {
                if hold.from < held.until && !attempt.mode.goes_with(other.mode) {
                    found.push(violation(other, held, attempt, hold));
                }
            }
            let last = &mut last[usize::from(attempt.mode == Mode::Shared)];
            if last.is_none_or(|(_, held)| held.until < hold.until) {
                *last = Some((attempt, hold));
            }
        }
    }
}

fn believed(attempts: &[Attempt]) -> impl Iterator<Item = (&Attempt, &Hold)> {
    let holds = attempts.iter().filter_map(|attempt| Some((attempt, attempt.hold.as_ref()?)));
    holds.filter(|(_, hold)| hold.believed())
}

fn violation(one: &Attempt, held: &Hold, two: &Attempt, hold: &Hold) -> Violation {
    let micros = |at: lock_core::Instant| at.as_nanos() / 1_000;
    let what = format!(
        "two valid guards of {:?} at once: {} (token {}) until {}us, and {} (token {}) from {}us",
        one.name.as_str(),
        one.op,
        held.token,
        micros(held.until),
        two.op,
        hold.token,
        micros(hold.from),
    );
    Violation::new(Rule::Exclusion, what, [one.op, two.op])
}

#[cfg(test)]
mod tests {
    use lock_core::{LockName, LossReason};
    use proptest::prelude::*;

    use super::{super::samples::*, *};
    use crate::history::{History, What, check};

    fn broken(history: &History) -> usize {
        check(history, &[Rule::Exclusion]).len()
    }

    #[test]
    fn overlapping_beliefs_are_found() {
        let two = |second: u64| Sample::new().acquired(10, 1, 20).ask(5).acquired(second, 2, 50);
        assert_eq!(broken(&two(19).history()), 1);
        assert_eq!(broken(&two(20).history()), 0, "touching is no overlap");
        // Not only the neighbour: the first ends last.
        let three = Sample::new().acquired(10, 1, 100).ask(5).acquired(20, 2, 30).ask(5);
        assert_eq!(broken(&three.acquired(40, 3, 50).history()), 2);
    }

    #[test]
    fn readers_overlap_each_other_and_no_writer() {
        let readers = || Sample::new().cancelled(1).ask_shared(2).acquired(10, 2, 30);
        let readers = || readers().ask_shared(3).acquired(12, 2, 20);
        assert_eq!(broken(&readers().history()), 0);
        // The reader that ends last counts, and not the last one.
        assert_eq!(broken(&readers().ask(4).acquired(25, 3, 40).history()), 1);
        assert_eq!(broken(&readers().ask(4).acquired(30, 3, 40).history()), 0);
        let writer = |until| readers().ask(4).acquired(30, 3, until).ask_shared(31);
        assert_eq!(broken(&writer(40).acquired(39, 4, 50).history()), 1);
        assert_eq!(broken(&writer(40).acquired(40, 4, 50).history()), 0);
    }

    #[test]
    fn a_renewal_lengthens_what_is_believed() {
        let renewed = Sample::new().acquired(10, 1, 20).look(15, 40).ask(16).acquired(30, 2, 50);
        assert_eq!(broken(&renewed.history()), 1);
    }

    #[test]
    fn belief_ends_where_the_holder_gave_up_or_heard_of_a_loss() {
        let then = |sample: Sample| sample.ask(16).acquired(17, 2, 50).history();
        assert_eq!(broken(&then(Sample::new().acquired(10, 1, 20).given_up(16))), 0);
        assert_eq!(broken(&then(Sample::new().acquired(10, 1, 20).look_lost(16))), 0);
        assert_eq!(broken(&then(Sample::new().acquired(10, 1, 20).lost(16, LossReason::Gone))), 0);
        // Heard of only after the other's grant: it was believed until then.
        assert_eq!(broken(&then(Sample::new().acquired(10, 1, 20).lost(18, LossReason::Gone))), 1);
        // A closed client has released before its guard's holder hears of it.
        let closed = Sample::new().acquired(10, 1, 20).lost(18, LossReason::Closed);
        assert_eq!(broken(&then(closed)), 0);
    }

    #[test]
    fn a_forced_release_excuses_the_holder_of_that_name_only() {
        let forced = |name: &str| {
            let what = What::Forced { name: LockName::new(name).unwrap(), began: at(15) };
            let first = Sample::new().acquired(10, 1, 30).event(16, what);
            first.ask(17).acquired(18, 2, 50).history()
        };
        assert_eq!(broken(&forced("job")), 0);
        assert_eq!(broken(&forced("other")), 1);
    }

    proptest! {
        #[test]
        fn the_sweep_finds_what_comparing_all_pairs_finds(
            spans in proptest::collection::vec((0_u64..60, 1_u64..8), 0..20)
        ) {
            let mut sample = Sample::new();
            for (at, (from, length)) in spans.iter().enumerate() {
                sample = sample.ask(0).acquired(*from, at as u64 + 1, from + length);
            }
            let pairs = spans.iter().enumerate().any(|(at, one)| {
                spans[..at].iter().any(|two| one.0 < two.0 + two.1 && two.0 < one.0 + one.1)
            });
            prop_assert_eq!(broken(&sample.history()) > 0, pairs);
        }
    }
}
