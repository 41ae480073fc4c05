//! What the benchmarks in `benches/` share.
//!
//! The contenders of a benchmark take turns, round after round, so that other work on the machine
//! disturbs all of them alike. A benchmark compares the medians of the rounds, and of the ratios
//! within each round. What leasehold costs over the bare commands of a store is measured by
//! the rest of this crate, not here.

// A failed benchmark must stop at once.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod asked;
mod calls;
mod contender;
mod machine;
mod processes;
mod site;
mod slices;
mod turns;

pub use self::{
    asked::Asked,
    calls::{Call, Seen, call, many, median, quantile},
    contender::Contender,
    machine::{Awake, own_processor_time},
    processes::{Children, child},
    site::Site,
    slices::{Slices, latencies, rates},
    turns::{Pace, Turn, clock, compete, seen},
};

use std::time::Duration;

/// The lease of every lock, unless a benchmark says otherwise.
pub const LEASE: Duration = Duration::from_secs(10);
/// How long a waiter waits.
pub const WAIT: Duration = Duration::from_secs(300);

/// Acquire and release of a lock that nobody else wants: each task has a name of its own.
#[must_use]
pub fn pairs(contender: &Contender) -> Call {
    let contender = contender.clone();
    call(move |task| {
        let contender = contender.clone();
        async move {
            contender.turn(&format!("own {task}"), task, Duration::ZERO).await.unwrap();
        }
    })
}
