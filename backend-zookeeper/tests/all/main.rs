//! The tests of the backend on real servers. `conformance` is a program of its own, with its own
//! harness.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ensemble;
mod faults;
mod foreign;
mod kept;
mod restore;
mod sessions;
mod support;
