//! A stream that is stuck alone, without an error, while all other calls go on.

use std::time::Duration;

use conformance_tests::kit::Streams;
use lock_core::{Env as _, Grant, LockClient, LockName, Renewal, SystemEnv};

use crate::support::{WAIT, connect, held_and_waited_for, request, served, single};

/// A follower passes each keepalive on to the leader, one after the other: with many locks the last waits for
/// seconds, while the stream is at work all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_keepalive_stream_that_is_at_work_is_not_stuck() {
    let etcd = single().await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let backend = connect(streams.address(), "60s").await;
    let mut held: Vec<Grant> = Vec::new();
    for number in 0..20 {
        let mut request = request();
        request.name = LockName::new(format!("job {number}")).unwrap();
        held.push(backend.try_acquire(&request).await.unwrap().granted().unwrap());
    }
    let held: Vec<&Grant> = held.iter().collect();
    // Together longer than a stream may be silent, each far shorter.
    streams.slow("LeaseKeepAlive", Duration::from_millis(100));
    let began = SystemEnv.now();
    let renewed = backend.renew(&held, began).await;
    let took = SystemEnv.now().since(began);
    let other = renewed.iter().find(|it| !matches!(it, Renewal::Renewed { .. }));
    assert!(other.is_none(), "{other:?} after {took:?}");
    assert!(
        took > Duration::from_secs(1),
        "{} locks were renewed in {took:?}: too few",
        held.len()
    );
    assert_eq!(streams.opened("LeaseKeepAlive"), 1, "a stream at work was given up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_keepalive_stream_is_noticed_and_no_lock_is_lost() {
    let etcd = single().await;
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
    let etcd = single().await;
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
