//! The tests of the backend on real servers. `conformance` is a program of its own, with its own
//! harness.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod ensemble;
mod faults;
mod fence;
mod foreign;
mod interop;
mod kept;
mod migration;
mod restore;
mod sessions;
mod settings;
mod support;
mod tls;
mod versions;
