//! The conformance suite of leasehold: it tries on a real store what every store must keep.
//!
//! To run it against a backend of your own, implement [`Harness`] and make this the `main` of a
//! test target with `harness = false`:
//!
//! ```no_run
//! use conformance_tests::MemoryHarness as MyHarness;
//!
//! fn main() -> std::process::ExitCode {
//!     conformance_tests::main(vec![std::sync::Arc::new(MyHarness)])
//! }
//! ```
//!
//! A crate of its own depends on `leasehold`, and for its tests on `conformance-tests` with
//! `default-features = false`, which brings no server and no store. `cargo test --test conformance
//! -- expiry` runs the cases whose names contain a word, `--list` prints the names. The suite
//! chooses its cases by the backend's `Guarantees`; [`Harness::skips`] must list each case that
//! does not apply. The run ends with a table of case × harness.
//!
//! - [`cases`]: the list; [`history`]: what clients saw, and a checker for it;
//! - [`sim`]: the real client in simulated time, over a network that loses, delays and repeats
//!   messages;
//! - with the feature `servers` [`kit`]: real servers and their faults; [`versions`]: what must
//!   hold if a store has records of another version;
//! - with the feature `proof` [`proof`]: client processes over a real store under one fault at a
//!   time, and a table of what held; [`stores`] has this project's stores for it.
//!
//! Two modules break stores on purpose, to show that the tests notice:
//!
//! - [`mutants`] tests the *suite*: the backend in memory with one flaw, which the case for it must
//!   catch;
//! - [`missing_guards`] (with the feature `servers`) tests the *scripts and statements of a
//!   backend*: a proxy leaves one guarded line out on its way to a real server, and the backend's
//!   own case must fail.
// A case fails by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod cases;
mod child;
mod composed;
mod composition;
mod harness;
pub mod history;
mod memory;
#[cfg(feature = "servers")]
pub mod missing_guards;
pub mod mutants;
mod observed;
#[cfg(feature = "servers")]
pub mod proof;
mod runner;
mod setting;
pub mod sim;
#[cfg(feature = "proof")]
pub mod stores;
#[cfg(feature = "servers")]
pub mod versions;

/// Real servers and their faults.
#[cfg(feature = "servers")]
pub use server_kit as kit;

pub use self::{
    harness::{Harness, Need, SetUpError, Store},
    memory::MemoryHarness,
    runner::main,
    setting::Setting,
};
