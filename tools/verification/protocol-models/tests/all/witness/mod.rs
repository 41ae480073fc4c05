//! The first use of a plain Redis: every order of the steps of two clients, with losses of data, of
//! the script cache and of the server.
//!
//! A store grants from one longest lease after its server's start on, if its *witness* is not in
//! the script cache. A client writes a candidate with a nonce into the epoch record, asks for the
//! witness, loads it, and opens the store. The real steps are `first_use.lua` and
//! `store/first_use.rs` of `backend-redis`.
//!
//! Time is only an order. A wait ends when each client that held a lock at its beginning has
//! renewed it since, or has lost its validity; the uptime of the server counts in the same way.
//! `Later` is a longest lease and a few seconds, in which each client looks at the server or loses
//! what it holds. The assumption of the store is that the data and the script cache are not lost
//! within that time. A client may stop between any two steps, take the next one much later, and
//! repeat its last one after a restart.
//!
//! For each rule, a test removes it, and the search must find two holders.
//!
//! Not shown: a server that becomes a replica or another server at its address (conditions of the
//! real script, or assumptions), and a wait that an operator's `init` has set.

mod state;
mod steps;

use stateright::{Checker, HasDiscoveries, Model};

use self::{
    state::Budget,
    steps::{OPENS, Rules, Store},
};

const ALL: Rules = Rules {
    asks_after: true,
    loads: true,
    nonce: true,
    run: true,
    young: true,
    puts_back: true,
    renews_with: true,
    uptime: true,
    prefix: true,
};

/// Each of these budgets is searched alone, since one search for all has too many states.
const LOSSES: Budget = Budget { tries: 3, flushes: 2, deletions: 0, forgets: 1, restarts: 0 };
const DELETION: Budget = Budget { tries: 2, flushes: 1, deletions: 1, forgets: 1, restarts: 0 };
const RESTART: Budget = Budget { tries: 2, flushes: 1, deletions: 0, forgets: 0, restarts: 1 };

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

fn breaks(rules: Rules, budget: Budget) {
    let (found, _) = search(rules, budget);
    assert!(found.contains(&"one holder"), "{found:?}");
}

#[test]
fn one_holds_over_losses_of_data_and_of_scripts() {
    for budget in [LOSSES, DELETION] {
        let (found, states) = search(ALL, budget);
        assert!(found.is_empty() && states > 50_000, "{found:?} in {states} states");
    }
}

#[test]
fn one_holds_over_a_restart_and_a_store_opens_after_it() {
    let (found, states) = search(ALL, RESTART);
    assert!(found == [OPENS] && states > 50_000, "{found:?} in {states} states");
}

#[test]
fn without_any_rule_two_hold() {
    breaks(Rules { asks_after: false, ..ALL }, LOSSES);
    breaks(Rules { loads: false, ..ALL }, LOSSES);
    breaks(Rules { nonce: false, ..ALL }, LOSSES);
    breaks(Rules { run: false, ..ALL }, RESTART);
    breaks(Rules { young: false, ..ALL }, LOSSES);
    breaks(Rules { puts_back: false, ..ALL }, LOSSES);
    breaks(Rules { renews_with: false, ..ALL }, DELETION);
    breaks(Rules { uptime: false, ..ALL }, RESTART);
}

#[test]
fn a_witness_for_all_prefixes_makes_a_new_one_wait() {
    let (found, _) = search(Rules { prefix: false, ..ALL }, LOSSES);
    assert_eq!(found, ["an unused store opens at once"]);
}
