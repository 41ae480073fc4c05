//! What shared locks cost beside exclusive ones, and how long a writer waits for readers.
//!
//! `cargo bench -p measurements --bench readers [-- STORE… PART…]` runs some stores, and some of
//! the parts `alone`, `mixed` and `starving`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::LockClient;
use measurements::bench::{Asked, Call, LEASE, Site, call, many, median, quantile};
use tokio::task::JoinSet;

const PARTS: [&str; 3] = ["alone", "mixed", "starving"];
const RUN: Duration = Duration::from_millis(700);
const ROUNDS: usize = 5;
/// Readers that acquire again and again, beside one writer.
const READERS: usize = 32;
const HOLD: Duration = Duration::from_millis(5);

/// What a task does with the lock.
#[derive(Clone, Copy)]
enum Use {
    /// Writes, on a name of its own.
    Own,
    /// Writes, on the name of all.
    Write,
    /// Reads, on the name of all.
    Read,
    /// Reads, and writes every twentieth time.
    Mixed,
}

async fn turn(client: &LockClient, name: &str, shared: bool, hold: Duration) -> Duration {
    let lock = client.lock(name).lease(LEASE);
    let (lock, asked) = (if shared { lock.shared() } else { lock }, Instant::now());
    let guard = lock.acquire().await.unwrap();
    let waited = asked.elapsed();
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
    guard.release().await.unwrap();
    waited
}

/// A client for each task.
fn uses(clients: &[LockClient], of: Use, hold: Duration) -> Call {
    let clients: Arc<[_]> =
        clients.iter().map(|client| (client.clone(), AtomicUsize::new(0))).collect();
    call(move |task| {
        let clients = Arc::clone(&clients);
        async move {
            let (client, count) = &clients[task];
            let count = task + count.fetch_add(1, Ordering::Relaxed);
            match of {
                Use::Own => turn(client, &format!("own {task}"), false, hold).await,
                Use::Write => turn(client, "written", false, hold).await,
                Use::Read => turn(client, "read", true, hold).await,
                Use::Mixed => turn(client, "mixed", count % 20 != 0, hold).await,
            };
        }
    })
}

/// Prints a line of rates, each the median of rounds in turn.
async fn race(clients: &[LockClient], kinds: &[(&str, Use, Duration)]) {
    let mut rounds = vec![Vec::new(); kinds.len()];
    for round in 0..=ROUNDS {
        for ((_, of, hold), rounds) in kinds.iter().zip(&mut rounds) {
            let seen = many(&uses(clients, *of, *hold), clients.len(), RUN).await;
            // The first round warms up.
            if round > 0 {
                rounds.push(seen.per_second);
            }
        }
    }
    let mut line = format!("{:>7}", clients.len());
    for ((label, ..), rounds) in kinds.iter().zip(rounds) {
        line += &format!("   {label} {:>7.0} /s", median(rounds));
    }
    println!("{line}");
}

async fn starving(clients: &[LockClient], writer: LockClient) {
    let (mut readers, began) = (JoinSet::new(), Instant::now());
    let span = 10 * RUN;
    for client in clients {
        let client = client.clone();
        readers.spawn(async move {
            let mut count = 0_usize;
            while began.elapsed() < span {
                turn(&client, "starving", true, HOLD).await;
                count += 1;
            }
            count
        });
    }
    let mut waits = Vec::new();
    while began.elapsed() < span {
        waits.push(turn(&writer, "starving", false, Duration::ZERO).await);
        tokio::time::sleep(2 * HOLD).await;
    }
    let reads: usize = readers.join_all().await.into_iter().sum();
    let [p50, p99, longest] = [0.5, 0.99, 1.0].map(|part| quantile(&mut waits, part) / 1e3);
    println!(
        "{READERS} readers that hold for {HOLD:?}, {reads} times; a writer waited {} times: p50 {p50:.1} ms, p99 {p99:.1} ms \
         ({:.1} holds), at most {longest:.1} ms",
        waits.len(),
        p99 / 1e3 / HOLD.as_secs_f64(),
    );
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let asked = Asked::from_args();
    for kind in Site::KINDS.into_iter().filter(|kind| asked.wants(kind, &Site::KINDS)) {
        runtime.block_on(async {
            let site = Site::start(kind).await;
            if !site.client().await.guarantees().shared.holds() {
                println!("\n{kind} has no shared locks");
                return;
            }
            println!("\n{kind}: clients with a connection each");
            let mut clients = Vec::new();
            for count in [1, 8, READERS, 64] {
                while clients.len() < count {
                    clients.push(site.client().await);
                }
                if asked.wants("alone", &PARTS) && count != READERS {
                    let none = Duration::ZERO;
                    let kinds = [("own names", Use::Own, none), ("readers", Use::Read, none)];
                    race(&clients, &kinds).await;
                }
                if asked.wants("mixed", &PARTS) && count == 8 {
                    let hold = Duration::from_millis(1);
                    let kinds =
                        [("1 ms, writers", Use::Write, hold), ("95% readers", Use::Mixed, hold)];
                    race(&clients, &kinds).await;
                }
                if asked.wants("starving", &PARTS) && count == READERS {
                    starving(&clients, site.client().await).await;
                }
            }
            for client in clients {
                client.close().await;
            }
        });
    }
}
