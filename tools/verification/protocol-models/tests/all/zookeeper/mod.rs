//! ZooKeeper after elections: every order of the steps of two clients, with elections, copies of
//! the servers' data, and restores of a copy.
//!
//! A restore shows nothing but one more election. So nobody is granted a lock in an epoch that
//! nobody has opened. `keys/settings.rs` and `session/own.rs` of `backend-zookeeper` have the real
//! rules: a session writes its own node with a check of the version, and a chain of such writes
//! from an open epoch to the present one opens that one at once. All others wait for a longest
//! lease.
//!
//! Time is counted in ticks, of which a lease has two. The assumption of the store is that the data
//! of a restore were copied at least a lease before the servers start with them. After a restore
//! the number of the epoch is one above that of the copy, or above all.
//!
//! For each rule, and for the assumption, a test removes it, and the search must find two holders.
//!
//! A waiter only reads. So what it may know of elections is the queue's last change, and the writes
//! of its client.
//!
//! Not shown: one server without elections, where the operator reports a restore.

mod state;
mod steps;

use stateright::{Checker, HasDiscoveries, Model};

use self::{
    state::Budget,
    steps::{NO_EARLY_END, OPENS, Rules, Store},
};

const ALL: Rules = Rules {
    meets: true,
    waits: true,
    checks_version: true,
    notes_before: true,
    keeps_session: true,
    unbroken: true,
    own_epoch: true,
    waits_anew: true,
    meets_writes: true,
    old_copies: true,
};

/// Each of these budgets is searched alone, since one search for all has too many states.
const RESTORES: Budget =
    Budget { sessions: 3, writes: 3, lost_answers: 0, elections: 1, restores: 1, waits: 0 };
const LOST_ANSWERS: Budget =
    Budget { sessions: 2, writes: 3, lost_answers: 1, elections: 1, restores: 1, waits: 0 };
const WAITS: Budget =
    Budget { sessions: 2, writes: 2, lost_answers: 0, elections: 0, restores: 1, waits: 1 };

/// What a search found, and how many states it saw.
fn search(rules: Rules, budget: Budget) -> (Vec<&'static str>, usize) {
    let checker = Store { rules, budget }.checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    if let Some(path) = checker.discovery("one holder") {
        println!("{:?}", path.into_actions());
    }
    let found = checker.discoveries().into_keys().collect();
    println!("{rules:?} {budget:?}: {} states, found {found:?}", checker.unique_state_count());
    (found, checker.unique_state_count())
}

#[test]
fn one_holds_over_elections_and_restores_and_a_witness_opens_an_epoch() {
    for budget in [RESTORES, LOST_ANSWERS] {
        let (found, states) = search(ALL, budget);
        assert!(found == [OPENS] && states > 50_000, "{found:?} in {states} states");
    }
    let (found, states) = search(ALL, WAITS);
    assert!(!found.contains(&"one holder") && states > 50_000, "{found:?} in {states} states");
}

#[test]
fn without_any_rule_two_hold() {
    let (found, _) = search(Rules { meets_writes: false, ..ALL }, WAITS);
    assert!(found.contains(&"one holder"), "{found:?}");
    for rules in [
        Rules { meets: false, ..ALL },
        Rules { waits: false, ..ALL },
        Rules { checks_version: false, ..ALL },
        Rules { keeps_session: false, ..ALL },
        Rules { unbroken: false, ..ALL },
        Rules { own_epoch: false, ..ALL },
        Rules { waits_anew: false, ..ALL },
        Rules { old_copies: false, ..ALL },
    ] {
        let (found, _) = search(rules, RESTORES);
        assert!(found.contains(&"one holder"), "{rules:?}: {found:?}");
    }
}

/// A caller that goes away must not cost its client the session, and the locks with it.
#[test]
fn a_write_that_counts_as_unknown_too_late_ends_a_session() {
    let (found, _) = search(Rules { notes_before: false, ..ALL }, LOST_ANSWERS);
    assert!(found.contains(&NO_EARLY_END), "{found:?}");
}
