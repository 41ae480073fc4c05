//! The kit's servers and faults, on real servers.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, too

mod clock;
mod process;
mod proxy;
mod zookeeper;
