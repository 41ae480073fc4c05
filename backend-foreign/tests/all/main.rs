//! Locks shared with other libraries, on real servers.

// Helpers of tests fail by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod clients;
mod docs;
mod hostile;
mod migration;
mod missing_guards;
mod operations;
mod polling;
mod server;
mod shedlock;
