//! The client over the reference backend, and that backend itself.

#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, too

mod client;
mod endings;
mod guards;
mod memory;
mod operators;
mod places;
mod quarantine;
mod runtimes;
mod several;
mod shared;
mod support;
