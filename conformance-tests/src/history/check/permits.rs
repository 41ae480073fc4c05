//! S1: a semaphore has at most as many holders as permits.

use std::collections::BTreeMap;

use lock_core::LockName;

use super::{Rule, Violation};
use crate::history::{Attempt, Hold, Holds};

pub(super) fn check(holds: &Holds, found: &mut Vec<Violation>) {
    let mut semaphores: BTreeMap<(&LockName, u32), Vec<(&Attempt, &Hold)>> = BTreeMap::new();
    for attempt in holds.by_name.values().flatten() {
        if let (Some((name, permits)), Some(hold)) = (&attempt.semaphore, &attempt.hold)
            && hold.believed()
        {
            semaphores.entry((name, *permits)).or_default().push((attempt, hold));
        }
    }
    for ((name, permits), mut believed) in semaphores {
        believed.sort_by_key(|(_, hold)| hold.from);
        let mut now: Vec<(&Attempt, &Hold)> = Vec::new();
        for (attempt, hold) in believed {
            now.retain(|(_, held)| hold.from < held.until);
            now.push((attempt, hold));
            if now.len() > permits as usize {
                let what = format!("{} holders of {permits} permits of {name:?}", now.len());
                let ops: Vec<_> = now.iter().map(|(attempt, _)| attempt.op).collect();
                found.push(Violation::new(Rule::Permits, what, ops));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::samples::*, *};
    use crate::history::{ALL_RULES, History, check};

    /// A semaphore of so many permits, whose holders believe for these spans, each in a slot of its
    /// own.
    fn holders(permits: u32, spans: &[(u64, u64)]) -> History {
        let mut sample = Sample::new().cancelled(1);
        for (slot, (from, until)) in spans.iter().enumerate() {
            sample = sample.ask_permit(permits, 0);
            sample = sample.acquired_slot(slot, *from, slot as u64 + 1, *until);
        }
        sample.history()
    }

    fn broken(history: &History) -> usize {
        check(history, &[Rule::Permits]).len()
    }

    #[test]
    fn one_more_holder_than_permits_is_found() {
        let three = [(10, 20), (12, 30), (15, 18)];
        assert_eq!(broken(&holders(3, &three)), 0);
        assert_eq!(broken(&holders(2, &three)), 1);
        // The third comes as the first ends.
        assert_eq!(broken(&holders(2, &[(10, 20), (12, 30), (20, 40)])), 0);
        // A slot is a lock: two in one are too many, whatever the permits.
        let one_slot = Sample::new().cancelled(1).ask_permit(3, 0).acquired_slot(0, 10, 1, 20);
        let one_slot = one_slot.ask_permit(3, 0).acquired_slot(0, 15, 2, 30);
        assert_eq!(check(&one_slot.history(), ALL_RULES)[0].rule, Rule::Exclusion);
    }

    proptest! {
        #[test]
        fn the_sweep_finds_what_counting_at_each_begin_finds(
            spans in proptest::collection::vec((0_u64..40, 1_u64..10), 0..12), permits in 1_u32..4
        ) {
            let spans: Vec<_> = spans.iter().map(|(from, length)| (*from, from + length)).collect();
            let inside = |at: u64| spans.iter().filter(move |(from, until)| (*from..*until).contains(&at));
            let most = spans.iter().map(|(from, _)| inside(*from).count()).max().unwrap_or(0);
            prop_assert_eq!(broken(&holders(permits, &spans)) > 0, most > permits as usize);
        }
    }
}
