//! The core with its guards left out, one at a time: each is missed by the case meant for it.
//!
//! This target is `lock-core` itself, built from a copy of its sources in which `build.rs` has put a
//! switch into each guard of `list.rs`. With no switch set it is the core as it is, and all cases pass.
//! The test below runs each case again in a process of its own with the one switch set, and it has to fail.

// The copy is held to the rules of the house where it comes from.
#![allow(warnings)]

extern crate self as lock_core;

include!(concat!(env!("OUT_DIR"), "/lock-core/lib.rs"));
include!(concat!(env!("OUT_DIR"), "/lock-core/missing.rs"));

mod cases;
#[path = "../../../lock-core/tests/client.rs"]
mod client_cases;
#[path = "../left_out/each.rs"]
mod each;
#[path = "../../../lock-core/tests/endings.rs"]
mod endings;
#[path = "../../../lock-core/tests/support/faulty.rs"]
mod faulty;
#[path = "../left_out/mod.rs"]
mod left_out;
mod list;
#[path = "../../../lock-core/tests/memory.rs"]
mod memory_cases;
#[path = "../../../lock-core/tests/migration_faults.rs"]
mod migration_faults;
#[path = "../../../lock-core/tests/migration_records.rs"]
mod migration_records;
#[path = "../../../lock-core/tests/migration_standing.rs"]
mod migration_standing;
#[path = "../left_out/mutant.rs"]
mod mutant;
mod stub;

#[test]
fn each_guard_of_the_core_is_missed_when_it_is_left_out() {
    each::is_missed(MISSING, &list::core());
}
