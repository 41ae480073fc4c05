//! The tests of the suite itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(feature = "proof")]
mod across_stores;
#[cfg(feature = "redis")]
mod broken;
#[cfg(feature = "proof")]
mod listing;
#[cfg(feature = "proof")]
mod migration_servers;
mod mutants;
mod simulation;
