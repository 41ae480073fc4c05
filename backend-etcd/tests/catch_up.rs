//! What is sent to a restored cluster before a client of ours looks must not hide that it was restored.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};

use futures_util::future::join_all;
use lock_core::{Enqueued, Init, Outcome, Release};

use self::support::cluster::{Cluster, LONGEST, attempt, held_back, request};

/// How long a log is made at least.
const LONG: u64 = 1_000;
/// Of each kind of call.
const MANY: usize = 20;
/// Requests of each kind that go through the log and write nothing.
const OTHERS: i64 = 150;

/// As other users of the same etcd send them, and clients of ours that have not looked.
async fn lengthen_the_log(cluster: &Cluster) {
    let client = Client::connect([cluster.etcd.endpoints()[0].to_string()], None).await.unwrap();
    for number in 1..=OTHERS {
        client.lease_client().grant(60, None).await.unwrap();
        client.lease_client().revoke(number).await.unwrap_err();
        let never = Compare::version("k", CompareOp::Less, 0);
        let txn = Txn::new().when([never]).and_then([TxnOp::put("k", "v", None)]);
        assert!(!client.kv_client().txn(txn).await.unwrap().succeeded());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_others_made_longer_does_not_hide_a_restore_of_a_young_cluster() {
    let mut cluster = Cluster::start(1).await;
    let known = cluster.connect().await;
    cluster.save().await;
    let lost = known.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    cluster.restore().await;
    lengthen_the_log(&cluster).await;
    let fresh = cluster.connect().await;
    let held_back = held_back(&*fresh, "job").await;
    assert!(held_back.why.contains("restored"), "{held_back:?}; lost was {}", lost.token);
}

/// What the settings kept of the log at a revision; 0 for now.
async fn kept_index(cluster: &Cluster, revision: i64) -> u64 {
    let (key, at) = ("leasehold/%leasehold/settings", format!("--rev={revision}"));
    let text = cluster.etcd.ctl(&["get", key, "--print-value-only", &at]).await.unwrap();
    let (_, rest) = text.split_once("\"index\":").unwrap();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

async fn index(cluster: &Cluster) -> u64 {
    let client = Client::connect([cluster.etcd.endpoints()[0].to_string()], None).await.unwrap();
    client.maintenance_client().status().await.unwrap().raft_index()
}

/// The log that begins anew is short until it is made longer, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_restore_is_seen_as_the_first() {
    let mut cluster = Cluster::start(1).await;
    for _ in 0..2 {
        let known = cluster.connect().await;
        cluster.save().await;
        assert!(attempt(&*known, &request("job")).await.granted().is_some());
        cluster.restore().await;
        lengthen_the_log(&cluster).await;
        held_back(&*cluster.connect().await, "job").await;
        assert!(kept_index(&cluster, 0).await >= LONG);
        let open = Init { first_use: true, ..Init::default() };
        cluster.connect().await.init(&open).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_made_longer_once() {
    let cluster = Cluster::start(1).await;
    let first = index(&cluster).await;
    assert!((LONG..LONG + 500).contains(&first), "{first} entries");
    assert!(kept_index(&cluster, 0).await >= LONG);
    // The first that was ever written are the settings.
    assert!(kept_index(&cluster, 2).await >= LONG, "a snapshot of then would be too short");
    // Another store in it finds it long enough.
    let url = format!("etcd://{}?prefix=other/", cluster.etcd.endpoints()[0]);
    backend_etcd::connect(&url).await.unwrap();
    let second = index(&cluster).await;
    assert!(second < first + 100, "{second} entries after {first}");
}

/// All that a client may send first after a restore.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_enters_a_restored_log_before_a_look() {
    let mut cluster = Cluster::start(1).await;
    let backend = cluster.connect().await;
    cluster.save().await;
    let (mut held, mut turns) = (Vec::new(), Vec::new());
    for number in 0..MANY {
        let name = number.to_string();
        held.push(attempt(&*backend, &request(&name)).await.granted().unwrap());
        match backend.enqueue(&request(&name)).await.unwrap() {
            Enqueued::Waiting(turn, _) => turns.push(turn),
            other => panic!("two holders: {other:?}"),
        }
    }
    cluster.restore().await;
    let (revision, before) = (cluster.revision().await, index(&cluster).await);
    let requests: Vec<_> = held.iter().map(|grant| request(grant.name.as_str())).collect();
    let (first, second) = held.split_at(MANY / 2);
    let keep = || Release { keep: Some(LONGEST / 2), ..Release::default() };
    // Each is repeated until it has reached the cluster.
    let released = join_all(first.iter().map(async |grant| {
        loop {
            match backend.release(grant, Release::default()).await {
                Ok(released) => return released.outcome,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    }));
    let kept = join_all(second.iter().map(|grant| backend.release(grant, keep())));
    let abandoned = join_all(requests.iter().map(|request| backend.abandon(request)));
    let left = join_all(turns.into_iter().map(|turn| turn.leave()));
    let forced = join_all(held.iter().map(|grant| backend.force_release(&grant.name)));
    let (released, ..) = tokio::join!(released, kept, abandoned, left, forced);
    assert!(released.iter().all(|outcome| *outcome == Outcome::NotHeld), "{released:?}");
    assert!(cluster.is_quarantined().await, "it was not seen");
    // The first that was written are the settings, and they tell how long the log was then. A lease that
    // nothing was tied to may have ended.
    let seen = kept_index(&cluster, revision + 1).await;
    assert!(seen < before + 10, "{} entries before it was looked at", seen - before);
}
