//! Every order of messages of two attempts (three, with readers) on three nodes. The decisions are
//! those of `backend-redlock`.
//!
//! A lost message is one that is never delivered, and a late one is delivered later. No step is
//! forced, and a request may be read after its attempt is over. A release is the same as the end of
//! validity, with the records ending one by one. Time is only an order: the lease of an attempt is
//! its period 0, that of its renewal is period 1, and a record ends after the last period that was
//! set there. A node in quarantine waits for every period that was asked for before its crash.
//! Nothing has a limit: each search ends when it has seen all states, or the violation that it
//! should find. Nodes are alike, so states that differ only in the order of nodes are one state.
//!
//! For each guard, a test removes it and the search must find the violation. There is one
//! exception. That a write-back goes *only to counted nodes* follows from *only while the lock is
//! still ours*: a node that accepts it has the lock and stores the number, whether or not its vote
//! arrived. The search shows that, too. The rule stays, since it costs nothing.
//!
//! That a renewal never gives the lock to a node again is not needed for exclusion either, as far
//! as one renewal shows (`a_renewal_that_takes_free_nodes_again_breaks_nothing`). The reason for
//! the rule is that a late renewal would leave a lock behind that no owner holds.
//!
//! Readers share a lock. Each has its own record on each node, with its own number, which raises
//! the watermark as a writer's does. Two readers may get the same token by a write-back. A reader
//! and a writer never have the same token. The scripts keep the records of all readers in one key,
//! which ends with the last of them; here they may end one by one.
//!
//! Not shown: more nodes or attempts, two renewals, repeats by the same owner, a clock that goes
//! ahead and comes back; with three attempts, a crash, a jump or a renewal. With `--ignored` the
//! tests also search a renewal over a crash, two crashes, and two readers beside a writer, which
//! takes some minutes. They find nothing.

mod node;
mod quorum;
mod state;

use stateright::{Checker, HasDiscoveries, Model};

use self::quorum::{Guards, Quorum, Time};

const ALL: Guards = Guards {
    write_back: true,
    counted_only: true,
    still_ours: true,
    quarantine: true,
    clock_floor: true,
    clock_votes: true,
    rest_kept: true,
    majority_th: true,
    reacquires_nothing: true,
    writers_wait: true,
    readers_wait: true,
    readers_mark: true,
    apart: true,
};

const PLAIN: Quorum = Quorum {
    guards: ALL,
    time: Time::Lease,
    tries: 2,
    readers: 0,
    proposals: 2,
    crashes: 0,
    jumps: 0,
    renewals: 0,
};

/// What a search found, and how many states it saw.
fn search(model: Quorum) -> (Vec<&'static str>, usize) {
    let what = format!("{:?} {:?}", model.guards, model.time);
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let found = checker.discoveries().into_keys().collect();
    println!("{what}: {} states, found {found:?}", checker.unique_state_count());
    (found, checker.unique_state_count())
}

/// The search finds nothing, in at least this many states.
fn safe(model: Quorum, at_least: usize) {
    let (found, states) = search(model);
    assert!(found.is_empty(), "{found:?}");
    assert!(states > at_least, "the model hardly moved: {states} states");
}

fn breaks(model: Quorum, what: &str) {
    let (found, _) = search(model);
    assert!(found.contains(&what), "{found:?}");
}

#[test]
fn tokens_rise_even_when_records_end_at_any_instant() {
    safe(Quorum { time: Time::Any, ..PLAIN }, 40_000);
}

#[test]
fn one_holds_and_tokens_rise_over_a_crash_with_amnesia() {
    safe(Quorum { crashes: 1, ..PLAIN }, 1_000_000);
}

#[test]
#[ignore = "takes about a minute"]
fn one_holds_and_tokens_rise_over_two_crashes_with_amnesia() {
    safe(Quorum { crashes: 2, ..PLAIN }, 5_000_000);
}

#[test]
fn one_holds_and_tokens_rise_when_a_clock_jumps() {
    safe(Quorum { jumps: 1, ..PLAIN }, 100_000);
}

#[test]
fn without_the_write_back_a_token_repeats() {
    breaks(
        Quorum { guards: Guards { write_back: false, ..ALL }, time: Time::Any, ..PLAIN },
        "tokens rise",
    );
}

#[test]
fn written_back_over_another_owner_a_token_repeats() {
    breaks(
        Quorum { guards: Guards { still_ours: false, ..ALL }, time: Time::Any, ..PLAIN },
        "tokens rise",
    );
}

#[test]
fn writing_back_to_uncounted_nodes_breaks_nothing() {
    safe(
        Quorum { guards: Guards { counted_only: false, ..ALL }, time: Time::Any, ..PLAIN },
        40_000,
    );
    let unchecked = Guards { counted_only: false, still_ours: false, ..ALL };
    breaks(Quorum { guards: unchecked, time: Time::Any, ..PLAIN }, "tokens rise");
}

#[test]
fn without_the_quarantine_two_hold_after_one_crash() {
    breaks(
        Quorum { guards: Guards { quarantine: false, ..ALL }, crashes: 1, ..PLAIN },
        "one holder, or readers",
    );
}

#[test]
fn without_the_clock_floor_a_token_repeats_after_one_crash() {
    breaks(
        Quorum { guards: Guards { clock_floor: false, ..ALL }, crashes: 1, ..PLAIN },
        "tokens rise",
    );
}

#[test]
fn without_clock_votes_two_hold_after_one_jump() {
    breaks(
        Quorum { guards: Guards { clock_votes: false, ..ALL }, jumps: 1, ..PLAIN },
        "one holder, or readers",
    );
}

#[test]
fn one_holds_and_tokens_rise_with_a_renewal() {
    safe(Quorum { renewals: 1, ..PLAIN }, 10_000);
}

/// These need only one number to propose.
const RENEWED: Quorum = Quorum { proposals: 1, renewals: 1, ..PLAIN };

#[test]
#[ignore = "takes half a minute"]
fn one_holds_and_tokens_rise_with_a_renewal_over_a_crash_with_amnesia() {
    safe(Quorum { crashes: 1, ..RENEWED }, 100_000);
}

#[test]
fn one_holds_and_tokens_rise_with_a_renewal_when_a_clock_jumps() {
    safe(Quorum { jumps: 1, ..RENEWED }, 100_000);
}

#[test]
fn given_back_as_soon_as_a_majority_has_lost_it_two_hold() {
    let guards = Guards { rest_kept: false, ..ALL };
    breaks(Quorum { guards, crashes: 1, ..RENEWED }, "one holder, or readers");
    breaks(Quorum { guards, jumps: 1, ..RENEWED }, "one holder, or readers");
}

#[test]
fn with_validity_until_the_largest_expiry_two_hold() {
    let guards = Guards { majority_th: false, ..ALL };
    breaks(Quorum { guards, ..RENEWED }, "one holder, or readers");
}

#[test]
fn a_renewal_that_takes_free_nodes_again_breaks_nothing() {
    let guards = Guards { reacquires_nothing: false, ..ALL };
    safe(Quorum { guards, ..RENEWED }, 100_000);
}

#[test]
#[ignore = "takes about a minute each"]
fn the_same_over_a_crash_or_when_a_clock_jumps() {
    let guards = Guards { reacquires_nothing: false, ..ALL };
    safe(Quorum { guards, jumps: 1, ..RENEWED }, 1_000_000);
    safe(Quorum { guards, crashes: 1, ..RENEWED }, 1_000_000);
}

/// A reader and a writer.
const BESIDE: Quorum = Quorum { readers: 1, ..PLAIN };
/// Two readers and a writer, with one number to propose.
const THREE: Quorum = Quorum { tries: 3, readers: 2, proposals: 1, ..PLAIN };

#[test]
fn a_reader_and_a_writer_never_hold_together_and_their_tokens_rise() {
    safe(Quorum { time: Time::Any, ..BESIDE }, 40_000);
    safe(Quorum { jumps: 1, ..BESIDE }, 100_000);
    safe(Quorum { renewals: 1, ..BESIDE }, 10_000);
}

#[test]
#[ignore = "takes some minutes"]
fn nor_do_two_readers_and_a_writer() {
    safe(THREE, 100_000);
}

#[test]
fn a_node_that_lets_a_writer_in_beside_readers_breaks_it() {
    let guards = Guards { writers_wait: false, ..ALL };
    breaks(Quorum { guards, ..BESIDE }, "one holder, or readers");
}

#[test]
fn so_does_one_that_lets_a_reader_in_beside_a_writer() {
    let guards = Guards { readers_wait: false, ..ALL };
    breaks(Quorum { guards, ..BESIDE }, "one holder, or readers");
}

#[test]
fn so_does_one_that_forgets_all_readers_when_the_lease_of_one_is_over() {
    let guards = Guards { apart: false, ..ALL };
    breaks(Quorum { guards, ..THREE }, "one holder, or readers");
}

#[test]
fn where_a_readers_number_is_not_remembered_a_writers_token_is_not_above_it() {
    let guards = Guards { readers_mark: false, ..ALL };
    breaks(Quorum { guards, time: Time::Any, ..BESIDE }, "tokens rise");
}
