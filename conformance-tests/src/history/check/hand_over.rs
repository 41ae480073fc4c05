//! A detached lock gets one guard at most, with the token that it had, and the detached guard is
//! never valid again.

use std::collections::{HashMap, HashSet};

use super::{Rule, Violation};
use crate::history::{History, What};

pub(super) fn check(history: &History, found: &mut Vec<Violation>) {
    let mut blame = |what: String, ops: [_; 2]| {
        found.push(Violation::new(Rule::HandOver, what, ops));
    };
    let (mut tokens, mut detached) = (HashMap::new(), HashSet::new());
    let (mut attaches, mut successors) = (HashMap::new(), HashMap::new());
    for event in history.events() {
        let op = event.op;
        match &event.what {
            What::Attaching { of, .. } => {
                attaches.insert(op, *of);
            }
            What::Detached => {
                detached.insert(op);
            }
            What::Looked { until: Some(_) } if detached.contains(&op) => {
                blame(format!("the guard of {op} was valid after its detach"), [op, op]);
            }
            What::Acquired { token, .. } => {
                tokens.insert(op, *token);
                let Some(of) = attaches.get(&op) else { continue };
                if tokens.get(of) != Some(token) {
                    let what = format!("{op} attached the lock of {of} and got the token {token}");
                    blame(what, [*of, op]);
                }
                if let Some(other) = successors.insert(*of, op) {
                    blame(format!("{other} and {op} both attached the lock of {of}"), [other, op]);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::samples::*, *};
    use crate::history::{ALL_RULES, check};

    fn broken(sample: Sample) -> Vec<Rule> {
        check(&sample.history(), ALL_RULES).iter().map(|violation| violation.rule).collect()
    }

    /// A lock with the token 5 that was detached before the time 13.
    fn detached() -> Sample {
        Sample::new().acquired(10, 5, 20).given_up(11).event(12, What::Detached)
    }

    #[test]
    fn one_guard_after_the_other_with_one_token_is_no_violation() {
        let attached = || detached().look_lost(12).attach(13).acquired(14, 5, 24);
        assert_eq!(broken(attached()), []);
        assert_eq!(broken(attached().attach_of(0, 13).event(15, What::NotHeld)), []);
        assert_eq!(broken(attached().attach_of(0, 13).failed(15)), [], "nobody knows");
        let again = attached().given_up(15).event(16, What::Detached).attach(17);
        assert_eq!(broken(again.acquired(18, 5, 28)), []);
        assert_eq!(broken(attached().given_up(15).ask(16).acquired(17, 6, 27)), []);
    }

    #[test]
    fn a_detached_guard_that_is_valid_is_found() {
        assert_eq!(broken(detached().look(13, 20)), [Rule::HandOver]);
    }

    #[test]
    fn a_second_attach_is_found_also_after_the_first_guard() {
        let attached = detached().attach(13).acquired(14, 5, 24).given_up(15);
        assert_eq!(broken(attached.attach_of(0, 16).acquired(17, 5, 27)), [Rule::HandOver]);
        let both = detached().attach(13).acquired(14, 5, 24);
        let both = broken(both.attach_of(0, 13).acquired(15, 5, 25));
        assert!(both.contains(&Rule::Exclusion) && both.contains(&Rule::HandOver), "{both:?}");
    }

    #[test]
    fn an_attach_with_another_token_or_after_a_later_grant_is_found() {
        assert_eq!(broken(detached().attach(13).acquired(14, 6, 24)), [Rule::HandOver]);
        let taken = detached().ask(30).acquired(31, 6, 41).given_up(32);
        assert!(broken(taken.attach_of(0, 33).acquired(34, 5, 44)).contains(&Rule::Tokens));
    }

    #[test]
    fn the_holder_does_not_rely_on_a_guard_that_it_detaches() {
        let kept = Sample::new().acquired(10, 5, 20).event(12, What::Detached);
        assert_eq!(broken(kept), [Rule::WellFormed]);
    }

    #[test]
    fn an_attach_passes_no_waiter() {
        let waits = detached().ask_in(1, 12).queued(13).acquired(30, 6, 40);
        let attached = waits.attach_of(0, 14).acquired(15, 5, 25).given_up(16);
        assert_eq!(broken(attached), []);
    }
}
