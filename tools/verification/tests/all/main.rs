//! Tests of the suite itself: that it catches broken stores, and locks across real stores.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(feature = "proof")]
mod across_stores;
#[cfg(feature = "proof")]
mod listing;
#[cfg(feature = "proof")]
mod migration_servers;
#[cfg(feature = "redis")]
mod missing_guards;
mod month;
mod mutants;
mod simulation;
