//! L3: queue entries are served first come, first served.
//!
//! If a client asks after another surely had a queue entry
//! ([`What::Queued`](crate::history::What::Queued)), it must not be served first. There are two
//! exceptions. An acquisition may inherit the older entry of another one of its process that gave
//! up. And the entries of paused or killed processes are passed over, so do not check this rule in
//! a history with such faults.

use super::{Rule, Violation};
use crate::history::{Attempt, Holds};

pub(super) fn check(holds: &Holds, found: &mut Vec<Violation>) {
    for attempts in holds.by_name.values() {
        for first in attempts.iter().filter(|attempt| attempt.queued.is_some()) {
            for later in attempts.iter().filter(|later| barged(first, later)) {
                let what = format!(
                    "{} waited for {:?} and {}, which asked later, was served first",
                    first.op,
                    first.name.as_str(),
                    later.op
                );
                found.push(Violation::new(Rule::Fairness, what, [first.op, later.op]));
            }
        }
    }
}

/// Whether `later` is no attach, asked after `first` had a queue entry, inherited no older entry,
/// and was granted while `first` waited.
fn barged(first: &Attempt, later: &Attempt) -> bool {
    let Some(hold) = &later.hold else { return false };
    if later.attaches.is_some() || first.queued.is_none_or(|queued| later.entry_since <= queued) {
        return false;
    }
    match (&first.hold, first.ended) {
        (Some(served), _) => hold.token < served.token,
        // `first` gave up. A grant that came before that passed it.
        (None, Some(gave_up)) => later.ended.is_some_and(|ended| ended < gave_up),
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::samples::*, *};
    use crate::history::{History, check};

    fn broken(history: &History) -> usize {
        check(history, &[Rule::Fairness]).len()
    }

    #[test]
    fn a_waiter_served_before_an_older_entry_is_found() {
        let order = |first: u64, second: u64| {
            let waits = Sample::new().ask_in(1, 1).queued(5).acquired(first, first, first + 2);
            broken(&waits.ask_in(2, 6).acquired(second, second, second + 2).history())
        };
        assert_eq!(order(10, 20), 0);
        assert_eq!(order(20, 10), 1);
    }

    #[test]
    fn without_evidence_of_an_entry_nobody_is_blamed() {
        let waits = Sample::new().ask_in(1, 1).acquired(20, 20, 22);
        assert_eq!(broken(&waits.ask_in(2, 6).acquired(10, 10, 12).history()), 0);
        let at_once = Sample::new().ask_in(1, 1).queued(5).acquired(20, 20, 22);
        assert_eq!(broken(&at_once.ask_in(2, 4).acquired(10, 10, 12).history()), 0);
    }

    #[test]
    fn who_gave_up_or_still_waits_was_passed_over_too() {
        let gave_up = |at: u64| {
            let waits = Sample::new().ask_in(1, 1).queued(5).cancelled(at);
            broken(&waits.ask_in(2, 6).acquired(10, 10, 12).history())
        };
        assert_eq!(gave_up(11), 1);
        assert_eq!(gave_up(9), 0);
        let still = Sample::new().ask_in(1, 1).queued(5).ask_in(2, 6).acquired(10, 10, 12);
        assert_eq!(broken(&still.history()), 1);
    }

    #[test]
    fn an_older_entry_of_the_same_process_may_be_inherited() {
        let left = Sample::new().ask_in(2, 0).ask_in(1, 1).queued(5).acquired(20, 20, 22);
        let heir = left.ask_in(2, 6).acquired(10, 10, 12);
        // Process 2 had asked at 0 and gave up at 7, while the heir waited.
        assert_eq!(broken(&heir.earlier(2).cancelled(7).history()), 0);
    }
}
