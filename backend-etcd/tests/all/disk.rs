//! A disk that is slow to flush, and one that is full.

use std::time::Duration;

use conformance_tests::kit::{Etcd, EtcdOptions, Server as _, SlowFlush};
use lock_core::{Env as _, ErrorKind, LockClient, SystemEnv};
use tokio::task::JoinSet;

use etcd_client::{AlarmAction, AlarmType, Client};

use crate::support::{WAIT, connect, held_and_waited_for, request, served, single, somebody_waits};

/// etcd's words for it.
const OVERLOADED: &str = "too many requests";

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_makes_locks_slow_and_loses_none() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let lease = Duration::from_secs(3);
    let client = LockClient::new(connect(address, "10s").await);
    let short = client.lock("short").lease(lease).acquire().await.unwrap();
    let holder = connect(address, "10s").await;
    let (guard, waiting) = held_and_waited_for(holder, connect(address, "10s").await).await;
    let delay = Duration::from_millis(200);
    let slow = SlowFlush::start(etcd.members()[0].process(), delay).await.unwrap();
    let began = SystemEnv.now();
    client.lock("other").acquire().await.unwrap().release().await.unwrap();
    assert!(SystemEnv.now().since(began) >= delay * 2, "the fault did not happen");
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(served(waiting).await.token() > token);
    // Renewals flush nothing.
    while SystemEnv.now() < began + lease {
        assert!(short.is_valid());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(slow.held_up().unwrap() > 2, "the fault did not happen");
    drop(slow);
    short.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_full_quota_locks_are_kept_and_given_back_and_none_is_granted() {
    let etcd = Etcd::single(EtcdOptions::new().quota_bytes(3_000_000)).await.unwrap();
    let address = etcd.endpoints()[0];
    let (holder, waiter) = (connect(address, "5s").await, connect(address, "5s").await);
    let client = LockClient::new(connect(address, "5s").await);
    let lease = Duration::from_secs(3);
    let short = client.lock("short").lease(lease).acquire().await.unwrap();
    let guard = LockClient::new(holder).lock("job").acquire().await.unwrap();
    let waiting = tokio::spawn(LockClient::new(waiter).lock("job").wait(WAIT).acquire());
    somebody_waits(&**client.backend()).await;
    let mut abandoned = request();
    abandoned.name = lock_core::LockName::new("abandoned").unwrap();
    client.backend().try_acquire(&abandoned).await.unwrap().granted().unwrap();
    let value = "x".repeat(100_000);
    let mut keys = Vec::new();
    while etcd.ctl(&["put", &format!("fill/{}", keys.len()), &value]).await.is_ok() {
        keys.push(format!("fill/{}", keys.len()));
        assert!(keys.len() < 100, "the fault did not happen");
    }
    assert!(etcd.ctl(&["alarm", "list"]).await.unwrap().contains("NOSPACE"));
    let full = SystemEnv.now();

    // No wait is waited out: an operator is needed.
    let error = client.lock("other").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("quota"), "{error}");
    while SystemEnv.now() + short.remaining() <= full + lease {
        assert!(short.is_valid(), "lost");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    short.release().await.unwrap();
    let refused = client.backend().abandon(&abandoned).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config, "there is no room for its tombstone: {refused}");
    assert_eq!(client.backend().inspect(&abandoned.name).await.unwrap(), None);
    // A place that was there before needs no room, unless its token does.
    guard.release().await.unwrap();
    match tokio::time::timeout(WAIT, waiting).await.expect("an answer").unwrap() {
        Ok(guard) => guard.release().await.unwrap(),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Config, "{error}"),
    }
    assert_eq!(etcd.ctl(&["get", "--prefix", "--keys-only", "leasehold/job/"]).await.unwrap(), "");

    etcd.ctl(&["del", "--prefix", "fill/"]).await.unwrap();
    let status = etcd.ctl(&["endpoint", "status", "--write-out=fields"]).await.unwrap();
    let line = status.lines().find(|line| line.starts_with("\"Revision\"")).unwrap();
    etcd.ctl(&["compact", line.rsplit(' ').next().unwrap()]).await.unwrap();
    etcd.ctl(&["defrag"]).await.unwrap();
    etcd.ctl(&["alarm", "disarm"]).await.unwrap();
    client.lock("other").wait(WAIT).acquire().await.unwrap().release().await.unwrap();
}

/// etcd refuses requests while it has carried out 5,000 fewer than it has agreed on. The status of such an
/// answer does not tell it from one of unknown outcome.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_overloaded_etcd_refuses_is_known_not_to_be_carried_out() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let client = LockClient::new(connect(address, "5s").await);
    // With leases in stock, the attempt is all that is sent.
    for _ in 0..4 {
        client.lock("job").acquire().await.unwrap().release().await.unwrap();
    }
    // The log is flushed, so that requests are agreed on; the database is not, so that they wait there.
    let (process, database) = (etcd.members()[0].process(), etcd.members()[0].database());
    let slow = SlowFlush::start_on(process, WAIT, &[database]).await.unwrap();
    let others = Client::connect([address.to_string()], None).await.unwrap();
    let mut flood = JoinSet::new();
    // Some are carried out before the first flush.
    for number in 0..12_000 {
        let mut others = others.kv_client();
        flood.spawn(async move { others.put(format!("flood/{number}"), "", None).await });
    }
    let overloaded = async {
        while let Some(put) = flood.join_next().await {
            if put.unwrap().is_err_and(|error| error.to_string().contains(OVERLOADED)) {
                return;
            }
        }
        panic!("the fault did not happen");
    };
    tokio::time::timeout(WAIT, overloaded).await.expect("the fault did not happen");
    let refused = async {
        loop {
            let error =
                client.backend().try_acquire(&request()).await.expect_err("it is overloaded");
            // A busy machine may not have answered in time.
            if format!("{error:#}").contains(OVERLOADED) {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(WAIT, refused).await.expect("the fault did not happen");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:#}");
    let waiting = tokio::spawn(client.lock("job").wait(WAIT * 3).acquire());
    // Its attempts are refused meanwhile: none can be seen from outside, but that it has not got the lock.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished(), "the fault was over");
    drop(slow);
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let tombstones = ["get", "--prefix", "--keys-only", "leasehold/%leasehold/abandoned/"];
    assert_eq!(etcd.ctl(&tombstones).await.unwrap(), "", "tombstones of what was refused");
}

/// Members that differ are no matter of waiting, and take no writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_cluster_needs_an_operator() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let client = LockClient::new(connect(address, "5s").await);
    let others = Client::connect([address.to_string()], None).await.unwrap();
    let (action, kind) = (AlarmAction::Activate, AlarmType::Corrupt);
    others.maintenance_client().alarm(action, kind, None).await.unwrap();
    let error = client.lock("job").wait(WAIT).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error:#}");
}
