//! Sentinels that hang, and what is left of their connections.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lock_core::Backend as _;
use servers::{Proxy, Redis, RedisOptions, Server as _, wait::until};

use crate::{
    RedisBuilder,
    backend::Redis as Client,
    discovery::Discovery,
    keys::Bucket,
    tests::discovery::{HOST, at, sentinel, server},
};

/// So long that a test fails if it waits for it.
const FOREVER: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_sentinel_that_hangs_is_not_waited_for() {
    let silent = server(|_| String::new()).await;
    let sentinels = [(HOST, silent), (HOST, sentinel(1001, 1).await)];
    let settings = RedisBuilder::sentinel("mymaster", sentinels).timeout(FOREVER).settings;
    let discovery = Discovery::new(&settings);
    let asked = async {
        assert_eq!(discovery.locate(Bucket::FIRST).await.unwrap(), at(1001));
        // Each sentinel is asked first once.
        for _ in 0..2 {
            assert!(!discovery.has_left(&at(1001)).await);
        }
    };
    tokio::time::timeout(SOON, asked).await.expect("the sentinel that hangs was waited for");
}

#[tokio::test]
async fn a_sentinel_that_hangs_delays_no_handshake() {
    let master = Redis::start(RedisOptions::new()).await.unwrap();
    let proxy = Proxy::start(master.address()).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let silent = server(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        String::new()
    })
    .await;
    let answers = sentinel(proxy.address().port(), 1).await;
    let sentinels = [(HOST, silent), (HOST, answers)];
    let builder = RedisBuilder::sentinel("mymaster", sentinels).timeout(FOREVER);
    let store = builder.build().await.unwrap();
    for _ in 0..3 {
        let known = asked.load(Ordering::SeqCst);
        until("the sentinel that hangs to be asked", SOON, || async {
            Ok((asked.load(Ordering::SeqCst) > known).then_some(()))
        })
        .await
        .unwrap();
        let sent = proxy.counters().to_server.passed;
        proxy.until("a handshake", SOON, |now| now.to_server.passed > sent).await.unwrap();
    }
    drop(store);
}

#[tokio::test]
async fn a_client_that_is_closed_leaves_the_sentinels() {
    let open = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&open);
    let listener = tokio::net::TcpListener::bind((HOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = sentinel(1001, 1).await;
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut to = tokio::net::TcpStream::connect((HOST, behind)).await.unwrap();
                tokio::io::copy_bidirectional(&mut client, &mut to).await.ok();
                counted.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    let settings = RedisBuilder::sentinel("mymaster", [(HOST, port)]).settings;
    let client = Client::new(settings, 1);
    client.store.discovery.locate(Bucket::FIRST).await.unwrap();
    assert_eq!(open.load(Ordering::SeqCst), 1);
    client.close().await;
    // A task that asks meanwhile opens no connection.
    client.store.discovery.has_left(&at(1001)).await;
    until("the connection to end", SOON, || async {
        Ok((open.load(Ordering::SeqCst) == 0).then_some(()))
    })
    .await
    .unwrap();
    drop(client);
}
