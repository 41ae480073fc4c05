//! The conformance suite of leasehold: what every store must keep, tried on the real one.
//!
//! To run it against a backend of your own, implement [`Harness`] and make this the `main` of a test
//! target with `harness = false`:
//!
//! ```no_run
//! use conformance_tests::MemoryHarness as MyHarness;
//!
//! fn main() -> std::process::ExitCode {
//!     conformance_tests::main(vec![std::sync::Arc::new(MyHarness)])
//! }
//! ```
//!
//! A crate of its own depends on `leasehold`, and for its tests on `conformance-tests` with `default-features = false`,
//! which brings no server and no store. `cargo test --test conformance -- expiry` runs the cases whose names contain a word, `--list` names
//! them. Cases are chosen by what the backend's `Guarantees` promise; one that is skipped must be
//! listed by [`Harness::skips`]. The run ends with a table of case × harness.
//!
//! - [`cases`]: the list; [`history`]: what clients saw, and a checker that sweeps over it;
//! - [`sim`]: the real core in simulated time, over a store that loses, delays and repeats messages;
//! - [`mutants`]: broken backends, each of which must be caught by the case meant for it;
//! - with the feature `servers` [`kit`]: real servers, and the faults that befall them; [`broken`]: scripts and
//!   statements that lack a line on their way to a server; and [`versions`]: what holds where a store has records of
//!   another version;
//! - with the feature `proof` [`proof`]: client processes that lock for a while under one fault after the other, and a table of
//!   what held; [`stores`] has this project's stores for it.
// Cases, and what helps them, fail by a panic: that is their answer.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(feature = "servers")]
pub mod broken;
pub mod cases;
mod child;
mod composed;
mod composition;
mod harness;
pub mod history;
mod memory;
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

/// Real servers, and the faults that befall them.
#[cfg(feature = "servers")]
pub use server_kit as kit;

pub use self::{
    harness::{Harness, Needs, SetUpError, Store},
    memory::MemoryHarness,
    runner::main,
    setting::Setting,
};
