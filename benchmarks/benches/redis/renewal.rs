//! What it costs to hold very many locks.

use std::time::{Duration, Instant};

use conformance_tests::kit::{Redis, Server as _};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lock_core::{LockClient, LockName};

use crate::measure::processor_time;

const LEASE: Duration = Duration::from_secs(30);
const LOCKS: usize = 10_000;
/// Three renewals of each, so that it does not matter where one falls.
const SPAN: Duration = Duration::from_secs(30);

/// Holds 10,000 locks with a lease of 30 s and prints what share of a core renewing them costs each
/// side. To be run before anything keeps the cores busy.
pub(crate) async fn run(server: &Redis, client: &LockClient) {
    println!("\n{LOCKS} held locks with a lease of 30 s, processor time of renewal");
    let guards: Vec<_> = stream::iter(0..LOCKS)
        .map(|number| {
            client.lock(LockName::new(format!("held {number}")).unwrap()).lease(LEASE).acquire()
        })
        .buffer_unordered(64)
        .try_collect()
        .await
        .unwrap();
    // The first renewals are spread; so are all after them.
    tokio::time::sleep(LEASE / 3).await;
    let (ours, theirs) = (std::process::id(), server.process().pid().unwrap());
    let (start, client_before, server_before) =
        (Instant::now(), processor_time(ours), processor_time(theirs));
    tokio::time::sleep(SPAN).await;
    let share = |used: Duration| 100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64();
    println!("{:<46} {:>9.2} % of a core", "client", share(processor_time(ours) - client_before));
    println!("{:<46} {:>9.2} % of a core", "server", share(processor_time(theirs) - server_before));
    assert!(guards.iter().all(lock_core::Guard::is_valid));
    let released = guards.into_iter().map(lock_core::Guard::release);
    stream::iter(released).buffer_unordered(64).try_collect::<Vec<_>>().await.unwrap();
}
