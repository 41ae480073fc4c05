//! Errors with which a server or a proxy refuses requests: those that pass, and those that stay.

use std::time::Duration;

use lock_core::{ErrorKind, LockClient};
use redis::aio::MultiplexedConnection;
use servers::{Proxy, Redis, RedisOptions, Server as _, wait};

use crate::support::{
    connect,
    direct::{said, talk_to},
    first_use, free, granted, name, request, server, url,
};

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);

/// The server closes all connections but the operator's, and takes no others.
async fn fill(server: &Redis) -> MultiplexedConnection {
    let mut operator = talk_to(server.address()).await;
    said(&mut operator, &["CONFIG", "SET", "maxclients", "1"]).await;
    said(&mut operator, &["CLIENT", "KILL", "TYPE", "normal"]).await;
    operator
}

async fn refused_connections(operator: &MultiplexedConnection) -> u64 {
    let stats = said(&mut operator.clone(), &["INFO", "stats"]).await;
    let count = stats.lines().find_map(|line| line.strip_prefix("rejected_connections:"));
    count.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn a_full_connection_table_is_waited_out() {
    let server = server().await;
    let (store, other) = (connect(&url(&server)).await, connect(&url(&server)).await);
    let client = LockClient::new(other);
    let guard = client.lock(name("held")).lease(LEASE).acquire().await.unwrap();
    let mut operator = fill(&server).await;
    let error = store.try_acquire(&request("a", LEASE)).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert!(format!("{error:?}").contains("maxclients"), "{error:?}");

    let before = refused_connections(&operator).await;
    let acquiring = tokio::spawn({
        let client = client.clone();
        async move { client.lock(name("a")).acquire().await }
    });
    let releasing = tokio::spawn(guard.release());
    let both = wait::until("refused connections", SOON, || async {
        Ok((refused_connections(&operator).await >= before + 4).then_some(()))
    });
    both.await.unwrap();
    said(&mut operator, &["CONFIG", "SET", "maxclients", "100"]).await;
    let done = async { (acquiring.await.unwrap().unwrap(), releasing.await.unwrap().unwrap()) };
    let (acquired, _) = tokio::time::timeout(SOON, done).await.unwrap();
    free(&*store, "held").await;
    acquired.release().await.unwrap();
}

/// A proxy before the server answers attempts with an error of its own.
async fn refusing(server: &Redis) -> Proxy {
    let guard = "redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[5]) == 0";
    let refusal = "error({err='ERR no upstream host'})";
    Proxy::altering(server.address(), &[(guard, refusal)]).await.unwrap()
}

#[tokio::test]
async fn an_unknown_error_is_retried_for_one_lease_and_then_final() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let direct = connect(&format!("{}?longest_lease=1s", url(&server))).await;
    first_use(&*direct).await;
    let proxy = refusing(&server).await;
    let store = connect(&format!("redis://{}?longest_lease=1s", proxy.address())).await;
    let lease = Duration::from_millis(500);
    let error = store.try_acquire(&request("a", lease)).await.unwrap_err();
    assert!(error.is_retryable() && format!("{error:?}").contains("no upstream"), "{error:?}");

    let client = LockClient::new(store);
    let acquiring = client.lock(name("a")).lease(lease).acquire();
    let error = tokio::time::timeout(SOON, acquiring).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
    assert!(error.to_string().contains("for 1s") && error.to_string().contains("no upstream"));
    assert!(proxy.counters().altered > 1, "it was not retried");
    granted(&*direct, &request("a", lease)).await;
}
