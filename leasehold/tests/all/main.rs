//! The facade: its API, configuration, features, the examples, and the names in the docs.

#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, too

mod api;
#[cfg(all(feature = "blocking", feature = "memory"))]
mod blocking;
#[cfg(feature = "memory")]
mod config;
mod docs;
#[cfg(feature = "sqlite")]
mod examples;
mod features;
#[cfg(all(feature = "memory", feature = "metrics", feature = "testing"))]
mod observability;
#[cfg(feature = "testing")]
mod observed;
#[cfg(feature = "memory")]
mod operators;
#[cfg(feature = "testing")]
mod testing;
