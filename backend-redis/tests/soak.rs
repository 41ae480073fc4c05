//! Memory is that of the live names, however many there were.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use conformance_tests::kit::{Clock, Redis, RedisOptions};
use futures_util::{StreamExt as _, stream};
use lock_core::LockClient;

use self::support::{connect, server_with, url};

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);
/// Names that are held throughout a measurement.
const LIVE: usize = 100;

/// One name's life. Most are only taken and given back; some are waited for, and some in vain.
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
    // The epoch record besides.
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
        // Tombstones stay for a minute.
        clock.step(120.0).unwrap();
        let gone = async {
            while server.cli(&["DBSIZE"]).await.unwrap() != "1" {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, gone).await.expect("something was left");
        (data(&server, &client).await, resident())
    };
    lives(0..2_000).await;
    let (data_before, resident_before) = settled().await;
    lives(2_000..2_000 + names).await;
    let (data_after, resident_after) = settled().await;
    println!(
        "{names} names: data {data_before} to {data_after} bytes, client {resident_before} to \
         {resident_after} KiB"
    );
    // Buffers of connections come and go; a single byte per name would show in a million.
    assert!(data_after < data_before + 200_000, "{data_before} bytes, then {data_after}");
    assert!(resident_after < resident_before + 30_000, "{resident_before}, then {resident_after}");
}

#[tokio::test]
async fn memory_is_that_of_live_names() {
    soak(20_000).await;
}

#[tokio::test]
#[ignore = "takes minutes: cargo test -p backend-redis --test soak -- --ignored --nocapture"]
async fn memory_is_that_of_live_names_after_a_million() {
    soak(1_000_000).await;
}
