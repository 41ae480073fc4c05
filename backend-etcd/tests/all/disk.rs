//! A disk that is slow to flush, and one that is full.

use std::time::Duration;

use lock_core::{Env as _, ErrorKind, LockClient, SystemEnv};
use servers::{Etcd, EtcdOptions, Server as _, SlowFlush};
use tokio::task::JoinSet;

use etcd_client::{AlarmAction, AlarmType, Client};

use crate::support::{
    LEASE, WAIT, connect, entries, granted, hands_over, held_and_waited_for, queue_of, renewed,
    request, request_for, revision, single,
};

/// etcd's error message.
const OVERLOADED: &str = "too many requests";

/// A flush takes longer than any test.
const FOR_GOOD: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_makes_locks_slow_and_loses_none() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let lease = LEASE / 3;
    let client = LockClient::new(connect(address, "10s").await);
    let short = client.lock("short").lease(lease).acquire().await.unwrap();
    let holder = connect(address, "10s").await;
    let (guard, waiting) = held_and_waited_for(holder, connect(address, "10s").await).await;
    let delay = Duration::from_millis(200);
    let slow = SlowFlush::start(etcd.members()[0].process(), delay).await.unwrap();
    let began = SystemEnv.now();
    client.lock("other").acquire().await.unwrap().release().await.unwrap();
    assert!(SystemEnv.now().since(began) >= delay * 2, "the fault did not happen");
    drop(hands_over(guard, waiting).await);
    // Renewals flush nothing.
    renewed(&short, SystemEnv.now(), lease).await;
    assert!(slow.held_up().unwrap() > 2, "the fault did not happen");
    drop(slow);
    short.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_full_quota_locks_are_renewed_and_released_and_none_is_granted() {
    let etcd = Etcd::single(EtcdOptions::new().quota_bytes(3_000_000)).await.unwrap();
    let address = etcd.endpoints()[0];
    let (holder, waiter) = (connect(address, "5s").await, connect(address, "5s").await);
    let client = LockClient::new(connect(address, "5s").await);
    let lease = LEASE / 3;
    let short = client.lock("short").lease(lease).acquire().await.unwrap();
    let guard = LockClient::new(holder).lock("job").acquire().await.unwrap();
    let waiting = tokio::spawn(LockClient::new(waiter).lock("job").wait(WAIT).acquire());
    queue_of(&**client.backend(), 1).await;
    let abandoned = request_for("abandoned");
    granted(&**client.backend(), &abandoned).await;
    let value = "x".repeat(100_000);
    let mut keys = Vec::new();
    while etcd.ctl(&["put", &format!("fill/{}", keys.len()), &value]).await.is_ok() {
        keys.push(format!("fill/{}", keys.len()));
        assert!(keys.len() < 100, "the fault did not happen");
    }
    assert!(etcd.ctl(&["alarm", "list"]).await.unwrap().contains("NOSPACE"));
    let full = SystemEnv.now();

    // The error comes at once, not after the wait: only an operator can help.
    let error = client.lock("other").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("quota"), "{error}");
    renewed(&short, full, lease).await;
    short.release().await.unwrap();
    let refused = client.backend().abandon(&abandoned).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config, "there is no room for its tombstone: {refused}");
    assert_eq!(client.backend().inspect(&abandoned.name).await.unwrap(), None);
    // An entry that existed before needs no room, unless its token must be written.
    guard.release().await.unwrap();
    match tokio::time::timeout(WAIT, waiting).await.expect("an answer").unwrap() {
        Ok(guard) => guard.release().await.unwrap(),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Config, "{error}"),
    }
    assert_eq!(entries(&etcd).await, "");

    etcd.ctl(&["del", "--prefix", "fill/"]).await.unwrap();
    etcd.ctl(&["compact", &revision(&etcd).await]).await.unwrap();
    etcd.ctl(&["defrag"]).await.unwrap();
    etcd.ctl(&["alarm", "disarm"]).await.unwrap();
    client.lock("other").wait(WAIT).acquire().await.unwrap().release().await.unwrap();
}

/// etcd refuses requests while it has applied 5,000 fewer entries than it has committed. The status
/// code of such an answer is the same as for an unknown outcome.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_an_overloaded_etcd_refuses_have_a_known_outcome() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let client = LockClient::new(connect(address, "5s").await);
    // With leases in the pool, the attempt is the only request.
    for _ in 0..4 {
        client.lock("job").acquire().await.unwrap().release().await.unwrap();
    }
    // The log is flushed, so requests are committed. The database is not, so they wait to be
    // applied.
    let (process, database) = (etcd.members()[0].process(), etcd.members()[0].database());
    let slow = SlowFlush::start_on(process, FOR_GOOD, &[database]).await.unwrap();
    let others = Client::connect([address.to_string()], None).await.unwrap();
    let put = |number| {
        let mut others = others.kv_client();
        async move { others.put(format!("flood/{number}"), "", None).await }
    };
    // So many wait to be applied, whatever was carried out before the first flush.
    let (mut flood, mut sent) = (JoinSet::new(), 0);
    loop {
        while flood.len() < 6_000 {
            flood.spawn(put(sent));
            sent += 1;
        }
        let answer = flood.join_next().await.expect("many are sent").unwrap();
        if answer.is_err_and(|error| error.to_string().contains(OVERLOADED)) {
            break;
        }
    }
    let error = loop {
        let error = client.backend().try_acquire(&request()).await.expect_err("it is overloaded");
        // A busy machine may not have answered in time.
        if format!("{error:#}").contains(OVERLOADED) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:#}");
    let waiting = tokio::spawn(client.lock("job").wait(WAIT * 3).acquire());
    // Its attempts are refused meanwhile. From outside, only the missing grant shows this.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished(), "the fault was over");
    drop(slow);
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let tombstones = ["get", "--prefix", "--keys-only", "leasehold/%leasehold/abandoned/"];
    assert_eq!(etcd.ctl(&tombstones).await.unwrap(), "", "refused attempts left tombstones");
}

/// Members whose data differ take no writes, and waiting does not help.
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
