//! Migrations over stores in memory, and two models.

#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, too

mod both;
mod entry_model;
mod faults;
mod model;
mod own_record;
mod records;
mod support;
