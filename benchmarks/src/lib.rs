//! What the benchmarks in `benches/` share.
//!
//! Contenders are measured in turns, round after round, so that whatever else the machine does falls on
//! all of them alike; what is compared are the medians of their rounds, and of the ratios within each.

// It is for benchmarks only, in which a failure is to be seen at once.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod bare;
mod calls;
mod contender;
mod held;
mod machine;
mod paused;
mod processes;
mod site;
mod slices;
mod sql;
mod table;
mod turns;

pub use self::{
    calls::{Call, Seen, call, many, one_by_one, quantile},
    contender::Contender,
    held::{Held, hold},
    machine::{Awake, processor_time},
    paused::Paused,
    processes::{Children, child},
    site::Site,
    slices::{Slices, latencies, rates},
    sql::{mariadb, mysql_store, postgres_pool, postgres_store},
    table::{Meter, Round, Table},
    turns::{Pace, Turn, clock, compete, seen},
};

use std::time::Duration;

use lock_core::LockClient;

/// Of all locks that are taken.
pub const LEASE: Duration = Duration::from_secs(10);
/// How long a waiter waits.
pub const WAIT: Duration = Duration::from_secs(300);

/// Acquire and release by a client, each task on a name of its own.
#[must_use]
pub fn pairs(client: &LockClient) -> Call {
    let client = client.clone();
    call(move |task| {
        let client = client.clone();
        async move {
            let lock = client.lock(format!("own {task}")).lease(LEASE).wait(WAIT);
            lock.acquire().await.unwrap().release().await.unwrap();
        }
    })
}

/// The same by another library; or by ours, as the others do it.
#[must_use]
pub fn pairs_of(contender: &Contender) -> Call {
    let contender = contender.clone();
    call(move |task| {
        let contender = contender.clone();
        async move {
            contender.turn(&format!("own {task}"), task, Duration::ZERO).await.unwrap();
        }
    })
}
