//! The client on the reference backend, and that backend itself.

#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, too

mod client;
mod close_and_waits;
mod guards;
mod hand_over;
mod latch;
mod log_lines;
mod memory;
mod once;
mod quarantine;
mod queue_entries;
mod records;
mod runtimes;
mod several;
mod shared;
mod support;
