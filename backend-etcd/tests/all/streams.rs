//! A stream that is stuck alone, without an error, while all other calls go on.

use std::time::Duration;

use conformance_tests::kit::{Etcd, EtcdOptions, Streams};
use futures_util::future::{join_all, try_join_all};
use lock_core::{Env as _, Grant, LockClient, LockName, Renewal, SystemEnv};

use crate::support::{WAIT, connect, held_and_waited_for, request, served, single};

/// How many locks are held through a follower.
const HELD: usize = 2_000;
/// How often each is renewed at once.
const TIMES: usize = 10;
/// Longer than a stream may be silent.
const LONG: Duration = Duration::from_secs(1);

/// A follower passes each keepalive on to the leader, one after the other: with many locks the last waits for
/// seconds, while the stream is at work all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_keepalive_stream_that_is_at_work_is_not_stuck() {
    let etcd = Etcd::three(EtcdOptions::new()).await.unwrap();
    let follower = (etcd.leader().await.unwrap() + 1) % 3;
    let backend = connect(etcd.endpoints()[follower], "60s").await;
    let mut held: Vec<Grant> = Vec::new();
    while held.len() < HELD {
        let some = (held.len()..HELD).take(250).map(|number| {
            let mut request = request();
            request.name = LockName::new(format!("job {number}")).unwrap();
            let backend = &backend;
            async move { backend.try_acquire(&request).await.map(|it| it.granted().unwrap()) }
        });
        held.extend(try_join_all(some).await.unwrap());
    }
    let held: Vec<&Grant> = held.iter().collect();
    let began = SystemEnv.now();
    let renewed = join_all((0..TIMES).map(|_| backend.renew(&held, began))).await;
    let took = SystemEnv.now().since(began);
    // Those that wait on a stream that is given up are told nothing of their leases.
    let other = renewed.iter().flatten().find(|it| !matches!(it, Renewal::Renewed { .. }));
    assert!(other.is_none(), "{other:?} after {took:?}");
    assert!(took > LONG, "{HELD} locks were renewed {TIMES} times in {took:?}: too few");
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
