//! Settings that change while clients use them.

use std::time::Duration;

use etcd_client::{Client, PutOptions};
use lock_core::{
    Attempt, Backend, Env as _, ErrorKind, FencingToken, Init, LockClient, ReleaseOutcome,
    SystemEnv,
};

use crate::support::{
    LEASE, WAIT, busy,
    cluster::{self, Cluster, LONGEST, PATIENCE, held_back},
    connect, granted, pair, release, request, request_for, single, streamed, until, waits,
};

const MINUTE: Duration = Duration::from_secs(60);

async fn set(backend: &dyn Backend, longest: Duration, first_use: bool) -> Duration {
    let init = Init::new().with_longest_lease(longest).with_first_use(first_use);
    backend.init(&init).await.unwrap().grants_in
}

/// A running quarantine is not replaced by a shorter one: holders may still believe in the leases
/// that it waits for.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_settings_does_not_cut_a_quarantine_short() {
    let (_etcd, [backend, _]) = pair().await;
    set(&*backend, MINUTE * 60, true).await;
    let first = set(&*backend, Duration::from_secs(10), false).await;
    assert!(first > MINUTE * 50, "{first:?}");
    for longest in [20, 5] {
        let left = set(&*backend, Duration::from_secs(longest), false).await;
        assert!(left > MINUTE * 50, "an hour must be waited out, and {left:?} are left");
    }
    // An operator may know that nothing is held.
    assert_eq!(set(&*backend, LEASE, true).await, Duration::ZERO);
    granted(&*backend, &request()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_longest_lease_waits_out_the_old_one() {
    let cluster = Cluster::start(1).await;
    let (backend, other) = (cluster.connect().await, cluster.connect().await);
    let began = SystemEnv.now();
    let grants_in = set(&*backend, LONGEST * 2, false).await;
    assert!(!grants_in.is_zero() && grants_in <= LONGEST, "{grants_in:?}");
    let held_back = held_back(&*other, "job").await;
    assert!(held_back.remaining <= LONGEST && held_back.why.contains("longest lease"));
    let client = LockClient::new(other);
    let _guard = client.lock("job").wait(PATIENCE).lease(LONGEST).acquire().await.unwrap();
    assert!(SystemEnv.now().since(began) >= LONGEST - Duration::from_secs(2), "it did not wait");
    assert_eq!(client.guarantees().longest_lease, LONGEST * 2);
}

/// Even a lease that was granted before the longest lease was shortened.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_loss_of_settings_any_lease_that_may_be_held_is_waited_out() {
    let cluster = Cluster::start(1).await;
    let backend = cluster.connect().await;
    set(&*backend, LONGEST * 10, true).await;
    set(&*backend, LONGEST, false).await;
    cluster.etcd.ctl(&["del", "--prefix", "leasehold/%leasehold/"]).await.unwrap();
    let held_back = held_back(&*backend, "job").await;
    assert!(held_back.remaining > LONGEST * 5, "{held_back:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_another_longest_lease_is_refused() {
    let cluster = Cluster::start(1).await;
    let url = format!("etcd://{}?longest_lease=40s", cluster.etcd.endpoints()[0]);
    let error = backend_etcd::connect(&url).await.expect_err("it is not refused");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

/// Holders may still believe in locks that were lost while the quarantine was off.
#[tokio::test(flavor = "multi_thread")]
async fn turning_the_quarantine_on_waits_out_a_longest_lease() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "1m").await;
    let turn = async |on| backend.init(&Init::new().with_quarantine(on)).await.unwrap();
    assert_eq!(turn(false).await.grants_in, Duration::ZERO);
    granted(&*backend, &request()).await;
    let left = turn(true).await.grants_in;
    assert!(left > LEASE / 2, "{left:?}");
    let answer = backend.try_acquire(&request_for("other")).await.unwrap();
    assert!(matches!(answer, Attempt::Quarantined(_)), "{answer:?}");
    // It is on already.
    assert!(turn(true).await.grants_in <= left);
}

/// An operator may shorten the longest lease without a wait. Then a client that still knows the old
/// settings must not get a longer lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_old_settings_is_refused() {
    let (_etcd, [known, other]) = pair().await;
    assert_eq!(known.guarantees().longest_lease, LEASE);
    set(&*other, LEASE / 6, true).await;
    // It learns of the change from an answer.
    let error = known.try_acquire(&request()).await.expect_err("a lease longer than a quarantine");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(known.guarantees().longest_lease, LEASE / 6);
    let error = known.enqueue(&request()).await.expect_err("the same with an entry");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let mut shorter = request();
    shorter.lease = LEASE / 6;
    let held = granted(&*known, &shorter).await;
    release(&*known, &held).await;
    // The longest lease that it knows may also be too short.
    set(&*other, LEASE, true).await;
    granted(&*known, &request()).await;
}

/// The same for an entry that was made before. If the quarantine waits out the old longest lease,
/// the entry is served.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_old_settings_is_served_only_if_they_are_waited_out() {
    let (etcd, [known, other]) = pair().await;
    for first_use in [false, true] {
        set(&*other, LEASE, true).await;
        let held = granted(&*other, &request()).await;
        let wanted = request();
        let waiter = waits(&*known, &wanted).await;
        set(&*other, LEASE / 6, first_use).await;
        release(&*other, &held).await;
        etcd.ctl(&["del", "leasehold/%leasehold/quarantine"]).await.unwrap();
        match known.try_acquire(&wanted).await {
            Ok(Attempt::Granted(_)) if !first_use => {}
            Err(error) if first_use => assert_eq!(error.kind(), ErrorKind::InvalidInput),
            other => panic!("{other:?}"),
        }
        waiter.leave().await.unwrap();
    }
}

/// A late request may arrive for as long as the lease with which it was sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_tombstone_lasts_for_as_long_as_the_lease_of_its_request() {
    let (etcd, [backend, _]) = pair().await;
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

/// The delete operation for the quarantine's key, as it is encoded in a transaction: the tag and
/// the length of the operation, those of the key, the key.
const ENDS_QUARANTINE: &str = "\u{1a}!\n\u{1f}leasehold/%leasehold/quarantine";

/// An operator knows only about the locks of that time.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_that_begins_meanwhile_is_not_ended_by_a_first_use() {
    let (_etcd, streams, [other, operator]) = streamed("60s").await;
    assert!(set(&*other, LEASE / 2, false).await > Duration::ZERO);
    // It has read the quarantine, and is about to end it.
    streams.hold_next("Txn", ENDS_QUARANTINE);
    let opening = tokio::spawn(async move {
        let init = Init::new().with_first_use(true);
        operator.init(&init).await.unwrap().grants_in
    });
    until("the request to end it", async || streams.holds("Txn")).await;
    assert!(set(&*other, LEASE * 2, false).await > Duration::ZERO);
    assert!(streams.deliver("Txn").await, "nothing was held up");
    let left = opening.await.unwrap();
    assert!(left > Duration::ZERO, "a quarantine that had just begun was ended");
    let refused = other.try_acquire(&request()).await.unwrap();
    assert!(matches!(refused, Attempt::Quarantined(_)), "{refused:?}");
}

/// Another user of etcd may write among the entries of a name. Such a key blocks the lock, is
/// listed, and can be removed by force.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_other_programs_are_listed_and_removed_by_force() {
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
    let held = granted(&*backend, &request()).await;

    let page = backend.list(None).await.unwrap();
    let mut shown: Vec<_> = page.locks.iter().map(|lock| lock.name.to_string()).collect();
    shown.sort();
    assert_eq!(shown, ["bell", "bytes", "job", "words"]);
    for blocked in ["bell", "bytes", "words"] {
        let wanted = request_for(blocked);
        assert!(busy(&*backend, &wanted).await.holder.is_some(), "{blocked}");
        assert!(backend.inspect(&wanted.name).await.unwrap().unwrap().holder.is_some());
        let forced = backend.force_release(&wanted.name).await.unwrap();
        assert_eq!(forced, ReleaseOutcome::Released, "{blocked}");
        granted(&*backend, &wanted).await;
    }
    release(&*backend, &held).await;
}

/// Another program that writes to the store may use up its tokens. An operator can reset them.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_used_up_are_reset_by_an_operator() {
    let cluster = Cluster::start(1).await;
    let backend = cluster.connect().await;
    let key = "leasehold/%leasehold/settings";
    let text = cluster.etcd.ctl(&["get", key, "--print-value-only"]).await.unwrap();
    for field in ["offset", "least"] {
        let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
        record[field] = FencingToken::MAX.get().into();
        cluster.etcd.ctl(&["put", key, &record.to_string()]).await.unwrap();
        let error = backend.try_acquire(&cluster::request("job")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("used up"), "{error}");
        assert!(error.to_string().contains("init --restored"), "{error}");
        assert_eq!(backend.highest_token().await.unwrap(), Some(FencingToken::MAX));
        let restored = Init::new().with_restored(true);
        let settings = cluster.connect().await.init(&restored).await.unwrap();
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
