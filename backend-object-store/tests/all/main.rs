//! Tests over a bucket in memory, with faults and with clocks that the test sets.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod clocks;
mod conditions;
mod replies;
#[cfg(feature = "clouds")]
mod s3;
mod support;
