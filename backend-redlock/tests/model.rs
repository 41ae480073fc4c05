//! Every order of messages of two attempts on three nodes, driven by the crate's own decisions.
//!
//! A lost or late message is one that is never, or later, delivered: no step is forced. Each guard
//! tested has a test that takes it away and sees the search find the violation. Nothing is capped.
//!
//! Not shown yet: that crashes with amnesia are safe with every guard in force (two crashes are
//! too many states for a test run so far), the clock floor, and "only counted nodes" on its own.
//! Write-backs still under way when an attempt ends, and releases, are not modelled.

#[path = "model/quorum.rs"]
mod quorum;

use quorum::{Guards, Quorum, Time};
use stateright::{Checker, Model};

const ALL: Guards = Guards {
    write_back: true,
    counted_only: true,
    still_ours: true,
    quarantine: true,
    clock_floor: true,
};

fn found(guards: Guards, time: Time, crashes: u8) -> (Vec<&'static str>, usize) {
    let model = Quorum { guards, time, crashes };
    let checker = model.checker().threads(2).spawn_bfs().join();
    let found = checker.discoveries().into_keys().collect();
    println!("{guards:?} {time:?}: {} states, found {found:?}", checker.unique_state_count());
    (found, checker.unique_state_count())
}

#[test]
fn tokens_never_repeat_when_records_expire_at_any_instant() {
    let (found, states) = found(ALL, Time::Any, 0);
    assert!(found.is_empty(), "{found:?}");
    assert!(states > 10_000, "the model hardly moved: {states} states");
}

#[test]
fn without_the_write_back_a_token_repeats() {
    let (found, _) = found(Guards { write_back: false, ..ALL }, Time::Any, 0);
    assert!(found.contains(&"tokens rise"), "{found:?}");
}

#[test]
fn written_back_over_another_owner_a_token_repeats() {
    let (found, _) = found(Guards { still_ours: false, ..ALL }, Time::Any, 0);
    assert!(found.contains(&"tokens rise"), "{found:?}");
}

#[test]
fn without_the_quarantine_two_hold() {
    let (found, _) = found(Guards { quarantine: false, ..ALL }, Time::Lease, 2);
    assert!(found.contains(&"one holder"), "{found:?}");
}
