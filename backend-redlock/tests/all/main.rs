//! All tests of the crate but those that need a program of their own: see Cargo.toml.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod batch;
mod faults;
mod missing_guards;
mod out_of_memory;
mod quorum;
mod readers;
mod refusing_nodes;
mod support;
mod versions;
mod waiting;
