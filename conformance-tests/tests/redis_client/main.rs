//! The client of Redis with its guards left out, one at a time: each is missed by the case meant for it.
//!
//! This target is `backend-redis` itself, built as `tests/core` is built of the core.

// The copy is held to the rules of the house where it comes from.
#![allow(warnings)]

include!(concat!(env!("OUT_DIR"), "/backend-redis/lib.rs"));
include!(concat!(env!("OUT_DIR"), "/backend-redis/missing.rs"));

mod cases;
#[path = "../left_out/each.rs"]
mod each;
#[path = "../left_out/mod.rs"]
mod left_out;
mod list;
#[path = "../left_out/mutant.rs"]
mod mutant;
mod strangers;
mod watching;
mod ways;

#[test]
fn each_guard_of_the_client_is_missed_when_it_is_left_out() {
    each::is_missed(MISSING, list::REDIS);
}
