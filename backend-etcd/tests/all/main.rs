//! The tests of the backend on real servers. Two test programs are separate: `conformance` has its
//! own harness, and `chaos` keeps all processors busy.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod credentials;
mod disk;
mod faults;
mod fence;
mod hostile;
mod identity;
mod interop;
mod lag;
mod late;
mod mass;
mod members;
mod minimum_hold;
mod offset;
mod past;
mod queue;
mod readers;
mod records;
mod repeats;
mod restore;
mod settings;
mod streams;
mod support;
mod tasks;
mod traffic;
mod versions;
