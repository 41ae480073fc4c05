//! Settings that change while clients use them.

use std::time::Duration;

use conformance_tests::kit::Streams;
use etcd_client::{Client, PutOptions};
use lock_core::{
    Attempt, Backend, Enqueued, Env as _, ErrorKind, FencingToken, Init, LockClient, LockName,
    ReleaseOptions, ReleaseOutcome, SystemEnv,
};
use tokio::time::timeout;

use crate::support::{
    LEASE, WAIT,
    cluster::{Cluster, LONGEST},
    connect, request, single,
};

const MINUTE: Duration = Duration::from_secs(60);

async fn set(backend: &dyn Backend, longest: Duration, first_use: bool) -> Duration {
    let init = Init::new().with_longest_lease(longest).with_first_use(first_use);
    backend.init(&init).await.unwrap().grants_in
}

/// A quarantine that runs is not replaced by a shorter one: holders may still believe in the leases that it waits for.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_settings_does_not_cut_a_quarantine_short() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "10s").await;
    set(&*backend, MINUTE * 60, true).await;
    let first = set(&*backend, Duration::from_secs(10), false).await;
    assert!(first > MINUTE * 50, "{first:?}");
    for longest in [20, 5] {
        let left = set(&*backend, Duration::from_secs(longest), false).await;
        assert!(left > MINUTE * 50, "an hour is to be waited out, and {left:?} are");
    }
    // An operator may know that nothing is held.
    assert_eq!(set(&*backend, LEASE, true).await, Duration::ZERO);
    assert!(backend.try_acquire(&request()).await.unwrap().granted().is_some());
}

/// Locks that were lost while it was off may still be believed in.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_that_is_turned_on_begins_with_a_whole_wait() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "1m").await;
    let turn = async |on| backend.init(&Init::new().with_quarantine(on)).await.unwrap();
    assert_eq!(turn(false).await.grants_in, Duration::ZERO);
    assert!(backend.try_acquire(&request()).await.unwrap().granted().is_some());
    let left = turn(true).await.grants_in;
    assert!(left > LEASE / 2, "{left:?}");
    let mut other = request();
    other.name = LockName::new("other").unwrap();
    let answer = backend.try_acquire(&other).await.unwrap();
    assert!(matches!(answer, Attempt::Quarantined(_)), "{answer:?}");
    // It is on already.
    assert!(turn(true).await.grants_in <= left);
}

/// What an operator opens at once is not waited out by leases of before: nobody may have one that still
/// knows the old settings.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_old_settings_is_refused() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let (known, other) = (connect(address, "10s").await, connect(address, "10s").await);
    assert_eq!(known.guarantees().longest_lease, LEASE);
    set(&*other, LEASE / 6, true).await;
    // It learns it from an answer.
    let error =
        known.try_acquire(&request()).await.expect_err("a lease that outlasts a quarantine");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(known.guarantees().longest_lease, LEASE / 6);
    let error = known.enqueue(&request()).await.expect_err("the same with a place");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let mut shorter = request();
    shorter.lease = LEASE / 6;
    let held = known.try_acquire(&shorter).await.unwrap().granted().unwrap();
    known.release(&held, ReleaseOptions::default()).await.unwrap();
    // And the settings that it knows may be too short.
    set(&*other, LEASE, true).await;
    assert!(known.try_acquire(&request()).await.unwrap().granted().is_some());
}

/// The same for a place that was made before; one that the quarantine waits for is served.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_of_old_settings_is_served_only_where_they_are_waited_out() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let (known, other) = (connect(address, "10s").await, connect(address, "10s").await);
    for first_use in [false, true] {
        set(&*other, LEASE, true).await;
        let held = other.try_acquire(&request()).await.unwrap().granted().unwrap();
        let wanted = request();
        let Enqueued::Waiting(turn, _) = known.enqueue(&wanted).await.unwrap() else {
            panic!("two holders");
        };
        set(&*other, LEASE / 6, first_use).await;
        other.release(&held, ReleaseOptions::default()).await.unwrap();
        etcd.ctl(&["del", "leasehold/%leasehold/quarantine"]).await.unwrap();
        match known.try_acquire(&wanted).await {
            Ok(Attempt::Granted(_)) if !first_use => {}
            Err(error) if first_use => assert_eq!(error.kind(), ErrorKind::InvalidInput),
            other => panic!("{other:?}"),
        }
        turn.leave().await.unwrap();
    }
}

/// A late attempt may come for as long as the lease that it was sent with.
#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_owner_is_remembered_for_as_long_as_its_lease() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "10s").await;
    set(&*backend, MINUTE * 60, true).await;
    let mut abandoned = request();
    abandoned.lease = MINUTE * 30;
    backend.abandon(&abandoned).await.unwrap();
    let key = format!("leasehold/%leasehold/abandoned/{}", abandoned.owner);
    let shown = etcd.ctl(&["get", "-w=fields", &key]).await.unwrap();
    let lease = shown.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap();
    let lease = format!("{:x}", lease.parse::<i64>().unwrap());
    let shown = etcd.ctl(&["lease", "timetolive", &lease]).await.unwrap();
    assert!(shown.contains("granted with TTL(1800s)"), "{shown}");
}

/// The order to delete the quarantine's key as it stands in a transaction: the tag and the length of the order,
/// those of the key, the key.
const ENDS_IT: &str = "\u{1a}!\n\u{1f}leasehold/%leasehold/quarantine";

/// An operator's word covers only the locks of its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_that_begins_meanwhile_is_not_ended_by_a_first_use() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let streams = Streams::start(address).await.unwrap();
    let (operator, other) =
        (connect(streams.address(), "60s").await, connect(address, "10s").await);
    assert!(set(&*other, LEASE / 2, false).await > Duration::ZERO);
    // It has looked, and is about to end the quarantine that it found.
    streams.hold_next("Txn", ENDS_IT);
    let opening = tokio::spawn(async move {
        let init = Init::new().with_first_use(true);
        operator.init(&init).await.unwrap().grants_in
    });
    let held = async {
        while !streams.holds("Txn") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(WAIT, held).await.expect("an order to end it");
    let begun = set(&*other, LEASE * 2, false).await;
    assert!(begun > Duration::ZERO);
    assert!(streams.deliver("Txn").await, "nothing was held up");
    let left = opening.await.unwrap();
    assert!(left > Duration::ZERO, "a quarantine that had just begun was ended");
    let refused = other.try_acquire(&request()).await.unwrap();
    assert!(matches!(refused, Attempt::Quarantined(_)), "{refused:?}");
}

/// Another user of etcd may write among the entries of a name: the key is in the way, is shown, and goes by force.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_client_made_is_shown_and_goes_by_force() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let others = Client::connect([etcd.endpoints()[0].to_string()], None).await.unwrap();
    let lease = others.lease_client().grant(60, None).await.unwrap().id();
    let label = r#"{"owner":"00000000000000000000000000000007","label":"a\u0007","offset":1,"granted":true,"kept":false}"#;
    let with_lease = Some(PutOptions::new().with_lease(lease));
    let mut kv = others.kv_client();
    kv.put("leasehold/bell/1f", label, with_lease).await.unwrap();
    kv.put("leasehold/words/readme", "", None).await.unwrap();
    kv.put(b"leasehold/bytes/\xff\xfe".to_vec(), "", None).await.unwrap();
    let held = backend.try_acquire(&request()).await.unwrap().granted().unwrap();

    let page = backend.list(None).await.unwrap();
    let mut shown: Vec<_> = page.locks.iter().map(|lock| lock.name.to_string()).collect();
    shown.sort();
    assert_eq!(shown, ["bell", "bytes", "job", "words"]);
    for blocked in ["bell", "bytes", "words"] {
        let name = LockName::new(blocked).unwrap();
        let mut wanted = request();
        wanted.name = name.clone();
        match backend.try_acquire(&wanted).await.unwrap() {
            Attempt::Busy(busy) => assert!(busy.holder.is_some(), "{busy:?}"),
            other => panic!("{blocked}: {other:?}"),
        }
        assert!(backend.inspect(&name).await.unwrap().unwrap().holder.is_some());
        assert_eq!(
            backend.force_release(&name).await.unwrap(),
            ReleaseOutcome::Released,
            "{blocked}"
        );
        assert!(backend.try_acquire(&wanted).await.unwrap().granted().is_some(), "{blocked}");
    }
    backend.release(&held, ReleaseOptions::default()).await.unwrap();
}

/// A user that may write to the store may use up its tokens; an operator starts them anew.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_used_up_start_anew_by_an_operators_word() {
    let cluster = Cluster::start(1).await;
    let backend = cluster.connect().await;
    let key = "leasehold/%leasehold/settings";
    let text = cluster.etcd.ctl(&["get", key, "--print-value-only"]).await.unwrap();
    for field in ["offset", "least"] {
        let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
        record[field] = FencingToken::MAX.get().into();
        cluster.etcd.ctl(&["put", key, &record.to_string()]).await.unwrap();
        let mut wanted = request();
        wanted.lease = LONGEST;
        let error = backend.try_acquire(&wanted).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("used up"), "{error}");
        assert!(error.to_string().contains("init --restored"), "{error}");
        assert_eq!(backend.highest_token().await.unwrap(), Some(FencingToken::MAX));
        let told = Init::new().with_restored(true);
        let settings = cluster.connect().await.init(&told).await.unwrap();
        assert!(!settings.grants_in.is_zero());
        let client = LockClient::new(std::sync::Arc::clone(&backend));
        let guard = client.lock("job").lease(LONGEST).wait(WAIT).acquire().await.unwrap();
        // As if they had never been used up.
        let clock = SystemEnv.wall_micros() + 2 * LONGEST.as_micros() as u64;
        assert!(guard.token().get() < clock, "{}", guard.token());
        let highest = backend.highest_token().await.unwrap().unwrap();
        assert!(guard.token() <= highest && highest.get() < clock, "{highest}");
        guard.release().await.unwrap();
    }
}
