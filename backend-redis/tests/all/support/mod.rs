//! Helpers for tests on real servers.
#![allow(dead_code, clippy::unwrap_used)] // not every test uses all of it

pub(crate) mod changes;
pub(crate) mod clusters;
pub(crate) mod direct;
pub(crate) mod holders;
pub(crate) mod permissions;
pub(crate) mod requests;
pub(crate) mod sentinels;
pub(crate) mod shared_cases;

use std::{sync::Arc, time::Duration};

use lock_core::{Attempt, Backend, Quarantined};
use servers::{Redis, RedisOptions, Server as _, wait};

pub(crate) use self::requests::*;

/// A server whose store grants at once.
pub(crate) async fn server() -> Redis {
    server_with(RedisOptions::new()).await
}

pub(crate) async fn server_with(options: RedisOptions) -> Redis {
    let server = Redis::start(options).await.unwrap();
    first_use(&*connect(&url(&server)).await).await;
    server
}

pub(crate) fn url(server: &Redis) -> String {
    format!("redis://{}", server.address())
}

pub(crate) async fn connect(url: &str) -> Arc<dyn Backend> {
    backend_redis::connect(url).await.unwrap()
}

/// Connects with a time limit that is too short for a busy machine.
pub(crate) async fn connect_soon(url: &str) -> Arc<dyn Backend> {
    loop {
        match backend_redis::connect(url).await {
            Err(error) if error.is_retryable() => {}
            store => return store.unwrap(),
        }
    }
}

/// A replica of this master, once it is in step.
pub(crate) async fn replica_of(master: &Redis, options: RedisOptions) -> Redis {
    let follow = format!("replicaof 127.0.0.1 {}", master.address().port());
    let replica = Redis::start(options.line(follow)).await.unwrap();
    in_step(master, &replica).await;
    replica
}

pub(crate) async fn in_step(master: &Redis, replica: &Redis) {
    let both = wait::until("a replica in step", Duration::from_secs(60), || async {
        let up = replica.info("master_link_status").await.unwrap_or_default() == "up";
        let known = master.cli(&["INFO", "replication"]).await?;
        Ok((up && known.contains("state=online")).then_some(()))
    });
    both.await.unwrap();
}

/// Waits until a name has no holder and no waiter.
pub(crate) async fn free(store: &dyn Backend, text: &str) {
    until(text, "still held", || async { store.inspect(&name(text)).await.unwrap().is_none() })
        .await;
}

/// Waits until a name has this many queue entries.
pub(crate) async fn queued(store: &dyn Backend, text: &str, count: u64) {
    let there = || async {
        let state = store.inspect(&name(text)).await.unwrap();
        state.is_some_and(|state| state.waiting == Some(count))
    };
    until(text, "nobody queued", there).await;
}

async fn until<F: Future<Output = bool>>(text: &str, otherwise: &str, holds: impl Fn() -> F) {
    let asking = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let limit = Duration::from_secs(60);
    assert!(tokio::time::timeout(limit, asking).await.is_ok(), "{text}: {otherwise}");
}

/// The store's answer for `a`, once the failover is over.
pub(crate) async fn quarantined(store: &dyn Backend) -> Quarantined {
    let asking = async {
        loop {
            match store.try_acquire(&request("a", Duration::from_millis(100))).await {
                Ok(Attempt::Quarantined(told)) => return told,
                Err(error) if error.is_retryable() => tokio::task::yield_now().await,
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asking).await.unwrap()
}
