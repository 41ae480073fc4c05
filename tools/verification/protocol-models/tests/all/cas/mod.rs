//! Every order of requests of two clients of a store that compares and swaps. The decisions are
//! those of `backend-object-store`.
//!
//! A client reads, decides and writes on a condition. A read is served at any time after it was
//! sent, and its answer comes at once: one that comes later is the same as a later write. A write
//! may be carried out late, twice, or never, and each answer may be lost. A client may give its
//! attempt up at any time, crash and come back as another; an operator may free the lock.
//!
//! Time is counted in ticks of a clock that nobody has. The clocks of the two run at other rates:
//! at worst the holder's is slow and the looker's fast. Then the holder believes for [`BELIEVED`]
//! ticks, and the looker waits for as many, because both keep a margin. Any other rates within the
//! bound end the belief earlier or the wait later, which is an order of steps here, too. The wall
//! clocks differ: the first client's is far ahead.
//!
//! For each rule, a test removes it and the search must find the violation.
//!
//! Not shown: three clients, more writes and ticks than the limits of [`Bucket`], hand-overs.

mod state;
mod steps;

use stateright::{Checker, HasDiscoveries, Model};

use self::state::{Bucket, Rules};

/// How long a holder believes in its lock, from before its request.
const BELIEVED: u8 = 2;

const ALL: Rules = Rules {
    compares: true,
    margin: true,
    from_answer: true,
    fresh_nonce: true,
    abandon_writes: true,
    objects_stay: true,
};

const PLAIN: Bucket = Bucket { rules: ALL, writes: 3, ticks: 3, crashes: 0, forces: 0 };

fn search(model: Bucket) -> (Vec<&'static str>, usize) {
    let what = format!("{model:?}");
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let found = checker.discoveries().into_keys().collect();
    println!("{what}: {} states, found {found:?}", checker.unique_state_count());
    (found, checker.unique_state_count())
}

/// The search finds only what should be found, in at least this many states.
fn safe(model: Bucket, at_least: usize) {
    let (found, states) = search(model);
    assert_eq!(found, ["both hold in turn"], "the model must move, and nothing else");
    assert!(states > at_least, "the model hardly moved: {states} states");
}

fn breaks(rules: Rules, what: &str) {
    let (found, _) = search(Bucket { rules, ..PLAIN });
    assert!(found.contains(&what), "{found:?}");
}

#[test]
fn one_holds_and_tokens_rise_over_late_and_repeated_writes() {
    safe(PLAIN, 10_000);
}

#[test]
fn one_holds_and_tokens_rise_over_a_crash() {
    safe(Bucket { crashes: 1, ticks: 2, ..PLAIN }, 10_000);
}

#[test]
fn tokens_rise_over_a_forced_release() {
    safe(Bucket { forces: 1, ticks: 2, ..PLAIN }, 10_000);
}

#[test]
fn without_conditions_two_get_one_token() {
    breaks(Rules { compares: false, ..ALL }, "tokens rise");
}

#[test]
fn without_the_margin_two_hold() {
    breaks(Rules { margin: false, ..ALL }, "one holder");
}

#[test]
fn counted_from_before_the_read_two_hold() {
    breaks(Rules { from_answer: false, ..ALL }, "one holder");
}

#[test]
fn with_versions_of_the_content_a_late_write_takes_the_lock() {
    breaks(Rules { fresh_nonce: false, ..ALL }, "an abandoned owner has nothing");
}

#[test]
fn an_abandon_that_writes_nothing_stops_nothing() {
    breaks(Rules { abandon_writes: false, ..ALL }, "an abandoned owner has nothing");
}

#[test]
fn after_a_deletion_a_token_repeats() {
    breaks(Rules { objects_stay: false, ..ALL }, "tokens rise");
}
