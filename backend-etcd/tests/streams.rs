//! A stream that is stuck alone, without an error, while all other calls go on.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use conformance_tests::kit::{Etcd, EtcdOptions, Streams};
use lock_core::{Env as _, LockClient, SystemEnv};

use self::support::{WAIT, connect, held_and_waited_for, served};

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_keepalive_stream_is_noticed_and_no_lock_is_lost() {
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let client = LockClient::new(connect(streams.address(), "5s").await);
    let lease = Duration::from_secs(6);
    let guard = client.lock("job").lease(lease).acquire().await.unwrap();
    let opened = async {
        while streams.opened("LeaseKeepAlive") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT, opened).await.expect("the first renewal");
    streams.stick("LeaseKeepAlive");
    let stuck = SystemEnv.now();
    // Only a renewal over another stream can bring this.
    let renewed = async {
        while SystemEnv.now() + guard.remaining() <= stuck + lease {
            assert!(guard.is_valid(), "lost");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT, renewed).await.expect("it is renewed");
    assert!(streams.swallowed("LeaseKeepAlive") > 0, "the fault did not happen");
    assert!(streams.opened("LeaseKeepAlive") > 1);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_watch_keeps_nobody_waiting_and_is_replaced() {
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let holder = connect(etcd.endpoints()[0], "5s").await;
    let waiter = connect(streams.address(), "5s").await;
    let (guard, waiting) = held_and_waited_for(holder.clone(), waiter.clone()).await;
    let opened = async |least: u64| {
        let opened = async {
            while streams.opened("Watch") < least {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT, opened).await.expect("a watch");
    };
    opened(1).await;
    // It is silent, and asked, and answers: a healthy one stays.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(streams.opened("Watch"), 1, "a healthy watch was given up");
    streams.stick("Watch");
    let token = guard.token();
    guard.release().await.unwrap();
    // By the poll behind it.
    let next = served(waiting).await;
    assert!(next.token() > token);
    assert!(streams.swallowed("Watch") > 0, "the fault did not happen");

    // Somebody waits again, and the watch is made anew.
    let waiting = tokio::spawn(async move {
        LockClient::new(waiter).lock("job").wait(WAIT * 3).acquire().await.unwrap()
    });
    opened(2).await;
    next.release().await.unwrap();
    drop(served(waiting).await);
}
