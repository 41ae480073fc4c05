//! The tests of the backend on real servers. `conformance` is a program of its own, with its own
//! harness.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod disk;
mod faults;
mod fence;
mod identity;
mod interop;
mod late;
mod mass;
mod members;
mod minimum_hold;
mod offset;
mod queue;
mod readers;
mod records;
mod restore;
mod settings;
mod support;
mod tasks;
mod traffic;
mod versions;
