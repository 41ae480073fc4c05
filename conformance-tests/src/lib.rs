//! The conformance suite of leasehold: it tries on a real store what every store must keep.
//!
//! To run it against a backend of your own, implement [`Harness`] and make this the `main` of a
//! test target with `harness = false`. (Rust's own harness has no word for a case that does not
//! apply, and no end of a run, at which the store of all cases stops.)
//!
//! ```no_run
//! use conformance_tests::MemoryHarness as MyHarness;
//!
//! fn main() -> std::process::ExitCode {
//!     conformance_tests::main(vec![std::sync::Arc::new(MyHarness)])
//! }
//! ```
//!
//! A crate of its own depends on `leasehold`, and for its tests on this crate, which brings no
//! server and no store. `cargo test --test conformance -- expiry` runs the cases whose names
//! contain a word, `--list` prints the names. The suite chooses its cases by the backend's
//! `Guarantees`; [`Harness::skips`] must list each case that does not apply. The run ends with a
//! table of case × harness.
//!
//! [`cases`] has the list, [`history`] what clients saw and a checker for it.
// A case fails by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod cases;
mod child;
mod child_process;
mod composed;
mod composition;
mod harness;
pub mod history;
mod memory;
mod observed;
mod record_faults;
mod runner;
mod setting;
mod sys;

pub use self::{
    child_process::{ChildProcess, exit_with_parent},
    composition::Composition,
    harness::{Harness, Need, SetUpError, Store},
    memory::MemoryHarness,
    observed::{Observed, OnEnqueue},
    record_faults::RecordFaults,
    runner::{Outcome, main, print, run_case},
    setting::Setting,
    sys::{PAUSES, Signal},
};
