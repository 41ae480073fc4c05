//! The backend of etcd with its guards left out, one at a time: each is missed by the case meant for it.
//!
//! This target is `backend-etcd` itself, built as `tests/core` is built of the core; its cases run on real
//! servers. Keys that transactions compare are left out on their way to etcd, too, in `tests/guards`.

// The copy is held to the rules of the house where it comes from.
#![allow(warnings)]

extern crate self as backend_etcd;

include!(concat!(env!("OUT_DIR"), "/backend-etcd/lib.rs"));
include!(concat!(env!("OUT_DIR"), "/backend-etcd/missing.rs"));

mod cases;
#[path = "../left_out/each.rs"]
mod each;
#[path = "../left_out/mod.rs"]
mod left_out;
mod list;
#[path = "../left_out/mutant.rs"]
mod mutant;

#[test]
fn each_guard_of_the_client_is_missed_when_it_is_left_out() {
    each::is_missed(MISSING, &list::etcd());
}
