//! Memory is used only for live names, however many there were before. The test measures its
//! process, so it is a program of its own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "all/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use lock_core::LockClient;
use servers::{Clock, Redis, RedisOptions};

use self::support::{connect, server_with, url};

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);
/// Names that are held throughout a measurement.
const LIVE: usize = 100;

/// The life of one name. Most are only acquired and released; some have a waiter, and some waiters
/// give up.
async fn life(client: &LockClient, number: usize) {
    let name = format!("job {number}");
    let lock = || client.lock(name.as_str()).lease(LEASE);
    let guard = lock().wait(SOON).acquire().await.unwrap();
    if number.is_multiple_of(10) {
        let waiting = lock().wait(SOON).acquire();
        let (waiter, released) = futures_util::future::join(waiting, guard.release()).await;
        released.unwrap();
        waiter.unwrap().release().await.unwrap();
    } else if number.is_multiple_of(101) {
        lock().wait(Duration::from_millis(3)).acquire().await.unwrap_err();
        guard.release().await.unwrap();
    } else {
        guard.release().await.unwrap();
    }
}

/// Bytes of the server's data, with this many names held.
async fn data(server: &Redis, client: &LockClient) -> u64 {
    let guards = stream::iter(0..LIVE).map(|number| async move {
        let lock = client.lock(format!("live {number}")).lease(LEASE);
        lock.wait(SOON).acquire().await.unwrap()
    });
    let guards: Vec<_> = guards.buffer_unordered(50).collect().await;
    let keys = server.cli(&["DBSIZE"]).await.unwrap();
    // The epoch record is counted too.
    assert_eq!(keys, (LIVE + 1).to_string(), "{}", server.cli(&["KEYS", "*"]).await.unwrap());
    let bytes = server.info("used_memory_dataset").await.unwrap().parse().unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
    bytes
}

/// This process's resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn soak(names: usize) {
    let clock = Clock::new().await.unwrap();
    let server = server_with(RedisOptions::new().clock(&clock)).await;
    let client = LockClient::new(connect(&url(&server)).await);
    let lives = |numbers: std::ops::Range<usize>| {
        let client = &client;
        stream::iter(numbers).for_each_concurrent(100, move |number| life(client, number))
    };
    let settled = async || {
        let gone = async {
            loop {
                // Tombstones live for a minute, also one that a background task has just written.
                clock.step(120.0).unwrap();
                for _ in 0..50 {
                    if server.cli(&["DBSIZE"]).await.unwrap() == "1" {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        tokio::time::timeout(SOON, gone).await.expect("something was left");
        (data(&server, &client).await, resident())
    };
    lives(0..2_000).await;
    let (data_before, resident_before) = settled().await;
    lives(2_000..2_000 + names).await;
    let (mut data_after, resident_after) = settled().await;
    // No key is left (see `data`). Buffers come and go, and tables stay sized for the tombstones of
    // the last minute; a byte per name would show in a million.
    let limit = data_before + 300_000 + names as u64 / 2;
    let start = Instant::now();
    while data_after >= limit && start.elapsed() < SOON {
        println!("{data_after} bytes after {:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
        data_after = data(&server, &client).await;
    }
    println!(
        "{names} names: data {data_before} to {data_after} bytes, client {resident_before} to \
         {resident_after} KiB"
    );
    assert!(data_after < limit, "{data_before} bytes, then {data_after}");
    assert!(resident_after < resident_before + 30_000, "{resident_before}, then {resident_after}");
}

#[tokio::test]
async fn memory_is_that_of_live_names() {
    soak(20_000).await;
}

#[tokio::test]
#[ignore = "takes minutes: cargo test -p leasehold-redis --test soak -- --ignored --nocapture"]
async fn memory_is_that_of_live_names_after_a_million() {
    soak(1_000_000).await;
}
