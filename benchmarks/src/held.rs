//! What it costs to hold very many locks.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lock_core::{Guard, LockClient, LockName};

use crate::processor_time;

/// Shares of a core that renewing takes, in percent.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Of this process.
    pub client: f64,
    /// Of the server's.
    pub server: f64,
}

/// Holds so many locks, waits until their renewals are spread over time, and measures for `span`, which
/// is to be a multiple of a third of the lease, so that it does not matter where a renewal falls. To be
/// run while nothing keeps the cores busy.
pub async fn hold(
    client: &LockClient,
    server: u32,
    locks: usize,
    lease: Duration,
    span: Duration,
) -> Held {
    let guards: Vec<_> = stream::iter(0..locks)
        .map(|number| {
            client.lock(LockName::new(format!("held {number}")).unwrap()).lease(lease).acquire()
        })
        .buffer_unordered(64)
        .try_collect()
        .await
        .unwrap();
    // The first renewals are spread; so are all after them.
    tokio::time::sleep(lease / 3).await;
    let pids = [std::process::id(), server];
    let (start, before) = (Instant::now(), pids.map(processor_time));
    tokio::time::sleep(span).await;
    let (after, took) = (pids.map(processor_time), start.elapsed());
    let share = |at: usize| 100.0 * (after[at] - before[at]).as_secs_f64() / took.as_secs_f64();
    assert!(guards.iter().all(Guard::is_valid));
    let released = guards.into_iter().map(Guard::release);
    stream::iter(released).buffer_unordered(64).try_collect::<Vec<_>>().await.unwrap();
    Held { client: share(0), server: share(1) }
}
