//! How this project is verified beyond the suite that every backend runs.
//!
//! - [`sim`]: the real client in simulated time, over a network that loses, delays and repeats
//!   messages;
//! - [`mutants`]: the backend in memory with one flaw, which the suite's case for it must catch;
//! - [`missing_guards`]: a proxy breaks one line of a script or statement on its way to a real
//!   server, and the case that a comment before the line names must fail;
//! - [`latch_outage`]: a latch and a leader's word while the store is away;
//! - [`late_hand_over`]: calls around a hand-over that arrive late, or whose answers are lost;
//! - [`late_write`]: a write of a record that arrives after the lock was lost;
//! - [`versions`]: what must hold if a store has records of another version;
//! - [`proof`]: client processes over a real store under one fault at a time, and a table of what
//!   held; with the feature `proof`, [`stores`] has this project's stores for it.
//!
//! The tests of this crate run the simulation, the proof, rolling migrations between real stores,
//! and the suite through migrations. `protocol-models` beside it searches protocols.
// A case fails by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod latch_outage;
pub mod late_hand_over;
pub mod late_write;
pub mod missing_guards;
pub mod mutants;
pub mod proof;
pub mod sim;
#[cfg(feature = "proof")]
pub mod stores;
pub mod versions;
