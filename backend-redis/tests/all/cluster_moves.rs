//! Slots of a Redis Cluster that move while locks in them are held and have waiters.

use std::time::Duration;

use conformance_tests::history::{ALL_RULES, Recorder, assert_clean};
use lock_core::{
    Attempt, Env as _, LockClient, OwnerId, ReleaseOptions, ReleaseOutcome, Renewal, SystemEnv,
};
use servers::{Redis, RedisCluster, Server as _, wait::until};

use crate::support::{
    calls,
    clusters::{BUCKET, cluster, deafen_replica, owner, queued, url},
    connect, granted,
    holders::hold,
    quarantined, renewed, request,
};

const SOON: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_slot_that_moves_while_held_and_waited_for_is_one_quarantine() {
    let options = "longest_lease=6s&failover_margin=0s";
    let cluster = cluster(0, options).await;
    let (slot, from) = owner(&cluster, 0).await;
    let to = (from + 1) % 3;
    let (recorder, lease) = (Recorder::new(1), Duration::from_secs(6));
    let first = LockClient::new(connect(&url(&cluster, options)).await);
    let second = LockClient::new(connect(&url(&cluster, options)).await);
    let other = connect(&url(&cluster, options)).await;
    let holder = hold(&recorder, &first, lease).await;
    let token = holder.token;
    let waiting = {
        let recorder = recorder.clone();
        tokio::spawn(async move { hold(&recorder, &second, lease).await })
    };
    queued(&cluster.nodes()[from]).await;
    cluster.move_slot(slot, to).await.unwrap();
    let told = quarantined(&*other).await;
    assert!(told.why.contains("changed its role"), "{told:?}");
    // The holder keeps the lock, with renewals at the new node.
    let before = renewals(&cluster.nodes()[to]).await;
    until("a renewal at the new node", SOON, || async {
        Ok((renewals(&cluster.nodes()[to]).await > before).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(holder.end().await, None, "the holder lost the lock");
    let next = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert!(next.token > token);
    next.end().await;
    assert_clean(&recorder.history(), ALL_RULES);
}

/// How often keys of the node got a new expiry.
async fn renewals(node: &Redis) -> u64 {
    calls(node, "pexpire").await
}

#[tokio::test]
async fn renewals_find_their_keys_on_either_side_of_a_move() {
    let cluster = cluster(0, "").await;
    let store = connect(&url(&cluster, "")).await;
    let (slot, from) = owner(&cluster, 0).await;
    let to = (from + 1) % 3;
    // Some names of the bucket of `a`.
    let one = granted(&*store, &request("a", LEASE)).await;
    let mut two = None;
    for number in 0..10_000 {
        let text = format!("job {number}");
        let key = format!("{BUCKET}lock:{text}");
        let grant = granted(&*store, &request(&text, LEASE)).await;
        if cluster.nodes()[from].cli(&["EXISTS", &key]).await.unwrap() == "1" {
            two = Some((grant, key));
            break;
        }
    }
    let (two, moved) = two.expect("no second name in the bucket");
    begin_move(&cluster, slot, (from, to), &moved).await;

    // One key is here and the other one there. Both are renewed, by no more than the longest lease.
    renewed(&*store, &[&one, &two]).await;
    let record = format!("{BUCKET}epoch");
    cluster.nodes()[from].cli(&["HSET", &record, "longest", "10000000"]).await.unwrap();
    for answer in store.renew(&[&one, &two], SystemEnv.now()).await {
        let short = Duration::from_secs(10);
        assert!(matches!(answer, Renewal::Renewed { lease, .. } if lease == short), "{answer:?}");
    }
    cluster.nodes()[from].cli(&["HSET", &record, "longest", "30000000"]).await.unwrap();
    let asked = calls(&cluster.nodes()[to], "asking").await;
    assert!(asked > 0, "nobody was sent to the other node");
    // Nothing is granted on half of the bucket.
    let error = store.try_acquire(&request("a", LEASE)).await.unwrap_err();
    assert!(error.is_retryable() && !error.is_ambiguous(), "{error}");
    // The rest of the slot moves too.
    cluster.move_slot(slot, to).await.unwrap();
    renewed(&*store, &[&one, &two]).await;
    assert!(quarantined(&*store).await.remaining > Duration::from_secs(20));
}

/// The last entry in the queue is dead. If a script removes it, the queue's key is gone, and the
/// cluster takes it for a key that has moved.
#[tokio::test]
async fn a_release_past_a_dead_entry_frees_the_lock_while_its_slot_moves() {
    let cluster = cluster(0, "").await;
    let store = connect(&url(&cluster, "")).await;
    let (slot, from) = owner(&cluster, 0).await;
    let (to, node) = ((from + 1) % 3, &cluster.nodes()[from]);
    let held = granted(&*store, &request("a", LEASE)).await;
    let [lock, queue, entries] = ["lock", "queue", "entries"].map(|of| format!("{BUCKET}{of}:a"));
    let dead = OwnerId::from_bits(7).to_string();
    assert_eq!(node.cli(&["RPUSH", &queue, &dead]).await.unwrap(), "1");
    let entry = ["HSET", &entries, &dead, "1 w 20000 0 channel label"];
    assert_eq!(node.cli(&entry).await.unwrap(), "1");
    start_move(&cluster, slot, (from, to)).await;
    let released = store.release(&held, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    // For a key that is not here the node answers that it has moved.
    for key in [queue, lock] {
        let answer = node.cli(&["EXISTS", &key]).await.unwrap();
        assert!(answer.starts_with("ASK"), "{key} is there: {answer}");
    }
}

/// Begins to move a slot.
async fn start_move(cluster: &RedisCluster, slot: u16, (from, to): (usize, usize)) {
    let [source, target] = [from, to].map(|at| &cluster.nodes()[at]);
    let from_id = source.cli(&["CLUSTER", "MYID"]).await.unwrap();
    let to_id = target.cli(&["CLUSTER", "MYID"]).await.unwrap();
    let slot = slot.to_string();
    for (node, words) in [
        (target, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]),
        (source, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]),
    ] {
        assert_eq!(node.cli(words).await.unwrap(), "OK", "{words:?}");
    }
}

/// Begins to move a slot, and moves this key.
async fn begin_move(cluster: &RedisCluster, slot: u16, (from, to): (usize, usize), key: &str) {
    start_move(cluster, slot, (from, to)).await;
    let port = cluster.nodes()[to].address().port().to_string();
    let go = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
    assert_eq!(cluster.nodes()[from].cli(&go).await.unwrap(), "OK");
}

#[tokio::test]
async fn a_quarantine_goes_with_its_slot_and_is_no_shorter_there() {
    let cluster = cluster(0, "").await;
    let store = connect(&url(&cluster, "")).await;
    let (slot, from) = owner(&cluster, 0).await;
    let record = format!("{BUCKET}epoch");
    assert_eq!(cluster.nodes()[from].cli(&["HDEL", &record, "run"]).await.unwrap(), "1");
    let before = quarantined(&*store).await;
    let to = (from + 1) % 3;
    cluster.move_slot(slot, to).await.unwrap();
    let after = quarantined(&*store).await;
    assert!(after.remaining >= before.remaining, "{before:?} {after:?}");
    assert!(after.why.contains("changed its role"), "{after:?}");
    let end = ["HGET", record.as_str(), "from"];
    assert_ne!(cluster.nodes()[to].cli(&end).await.unwrap(), "0");
}

/// A lock that has moved before its slot dies with its new node, and the slot stays. So what
/// exclusion assumes here is needed, and the step that an operator should take helps.
#[tokio::test]
async fn a_move_whose_target_is_replaced_needs_its_quarantine_begun_by_hand() {
    let mut cluster = cluster(1, "").await;
    let store = connect(&url(&cluster, "")).await;
    let told = store.guarantees().exclusion.to_string();
    assert!(told.contains("HDEL of `run` in its epoch record begins a quarantine"), "{told}");
    let (slot, from) = owner(&cluster, 0).await;
    let to = (from + 1) % 3;
    let held = granted(&*store, &request("a", LEASE)).await;
    deafen_replica(&cluster, to).await;
    begin_move(&cluster, slot, (from, to), &format!("{BUCKET}lock:a")).await;
    cluster.node_mut(to).kill().unwrap();
    cluster.nodes()[to + 3].resume().unwrap();
    until("a replica to take over", SOON, || async {
        Ok((cluster.nodes()[to + 3].info("role").await? == "master").then_some(()))
    })
    .await
    .unwrap();
    cluster.wait_whole().await.unwrap();
    let source = &cluster.nodes()[from];
    let stays = ["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"];
    assert_eq!(source.cli(&stays).await.unwrap(), "OK");

    let next = store.try_acquire(&request("a", Duration::from_millis(100))).await.unwrap();
    let Attempt::Granted(next) = next else { panic!("the lock was not lost: {next:?}") };
    assert!(next.token > held.token);
    let run = ["HDEL", &format!("{BUCKET}epoch"), "run"];
    assert_eq!(source.cli(&run).await.unwrap(), "1");
    let told = quarantined(&*store).await;
    assert!(told.remaining > Duration::from_secs(20), "{told:?}");
}
