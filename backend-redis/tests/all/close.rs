//! No connection is left after `close()`, even if the client value still exists.

use std::time::Duration;

use servers::{Redis, RedisOptions, wait::until};

use crate::support::{
    clusters, connect,
    direct::{said, talk_to},
    enqueued, granted, request, sentinels, server, url,
};

const SOON: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(20);

/// How many clients are connected, without the one that asks.
async fn clients(server: &Redis) -> usize {
    server.cli(&["CLIENT", "LIST", "TYPE", "normal"]).await.unwrap().lines().count() - 1
        + server.cli(&["CLIENT", "LIST", "TYPE", "pubsub"]).await.unwrap().lines().count()
}

async fn left(server: &Redis) {
    until("all connections to end", SOON, || async {
        Ok((clients(server).await == 0).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn nothing_of_a_closed_client_stays_connected_to_its_server() {
    let server = server().await;
    left(&server).await;
    let store = connect(&url(&server)).await;
    granted(&*store, &request("a", LEASE)).await;
    let turn = enqueued(&*store, &request("a", LEASE)).await;
    assert!(clients(&server).await > 0);
    store.close().await;
    left(&server).await;
    // The old connection is not made again.
    assert!(store.try_acquire(&request("b", LEASE)).await.is_err());
    left(&server).await;
    drop((turn, store));
}

#[tokio::test]
async fn nothing_of_a_closed_client_stays_connected_to_a_cluster() {
    let cluster = clusters::cluster(0, "").await;
    let store = connect(&clusters::url(&cluster, "")).await;
    granted(&*store, &request("a", LEASE)).await;
    let turn = enqueued(&*store, &request("a", LEASE)).await;
    store.close().await;
    for node in cluster.nodes() {
        left(node).await;
    }
    drop((turn, store));
}

#[tokio::test]
async fn nothing_of_a_closed_client_stays_connected_to_sentinels() {
    let group = sentinels::group(RedisOptions::new(), "").await;
    let mut lists = Vec::new();
    for sentinel in group.endpoints() {
        lists.push(talk_to(sentinel).await);
    }
    // Sentinels are connected to each other, and name themselves.
    let mut count = async || {
        let mut count = 0;
        for list in &mut lists {
            let all = said(list, &["CLIENT", "LIST", "TYPE", "normal"]).await;
            count += all.lines().filter(|line| line.contains("cmd=sentinel")).count();
        }
        count
    };
    let store = connect(&sentinels::url(&group, "")).await;
    granted(&*store, &request("a", LEASE)).await;
    assert!(count().await >= 2, "nobody was asked");
    store.close().await;
    let ended = async {
        while count().await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, ended).await.unwrap();
    drop(store);
}
