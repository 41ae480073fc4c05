//! The tests of the comparison.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod embedded;
mod servers;
