//! Removes one guard from the Lua scripts or SQL statements of a backend, on their way to a real
//! server. The case for that guard must then fail. The same case must pass with the unchanged text.
//!
//! This shows that the *backend's* tests notice a missing guard. Whether the *suite's* cases notice
//! a broken backend, `mutants` shows.
//!
//! A guard is one line of a text. Comments before it, which must reach the server, name the
//! variant, the requirement and the case: see [`Variant`]. The tests of a backend have a table of
//! their cases ([`cases!`](crate::cases)) for each [`Setup`], and let a [`Trial`] run.

pub mod cases;
mod copies;
mod markers;
pub mod record_cases;
#[cfg(feature = "redis")]
pub mod redis;
mod setup;
mod suite;
mod trial;
#[cfg(feature = "redis")]
mod worlds;

#[cfg(feature = "redis")]
pub use self::worlds::{BothWays, Worlds};
pub use self::{
    markers::{Variant, variants},
    setup::{Case, Clients, Setup, Verdict},
    trial::Trial,
};
