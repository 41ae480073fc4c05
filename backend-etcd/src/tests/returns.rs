//! Leases that releases return to the pool, and those that must end instead.

use std::sync::Arc;

use lock_core::{Backend as _, Instant, ReleaseOptions, ReleaseOutcome, Renewal};
use servers::Streams;

use super::*;
use crate::{
    fence::HeldKey,
    keys::entry::{Held, StoredEntry},
    rpc::Lease,
    steps::release::revoke,
};

/// Has room for all leases of a case.
const POOL: usize = 64;

async fn pooling() -> (Etcd, Arc<Store>) {
    let etcd = start().await;
    let store = open_with_pool(etcd.endpoints()[0], PATIENCE, POOL).await;
    (etcd, store)
}

fn held(grant: &Grant) -> &Held {
    grant.state.as_ref().unwrap().downcast_ref().unwrap()
}

fn lease(grant: &Grant) -> i64 {
    held(grant).lease.id
}

async fn lives(store: &Store, lease: i64) -> bool {
    store.rpc.remaining(lease).await.unwrap() > Duration::ZERO
}

async fn is_held(store: &Store, on: &str) -> bool {
    store.inspect(&name(on)).await.unwrap().is_some()
}

/// The lease that a release has returned to the pool.
async fn returned(store: &Store, lease: i64) -> Lease {
    let history = history(store).await;
    let mut pooled = std::iter::from_fn(|| store.leases.pool.take(LEASE, history));
    pooled.find(|pooled| pooled.id == lease).expect("the lease was not returned")
}

/// Makes the lease that a release has returned the next that is used: the youngest.
async fn is_next(store: &Store, lease: i64) {
    let pooled = returned(store, lease).await;
    let from = Instant::from_nanos(pooled.from.as_nanos() + LEASE.as_nanos() as u64);
    store.leases.put_back(Lease { from, ..pooled }, history(store).await);
}

/// A grant that was released, and the next grant, whose lease it returned.
async fn after_a_return(store: &Store, wanted: &Request) -> (Grant, Grant) {
    let first = granted(store, wanted).await;
    release(store, &first).await;
    is_next(store, lease(&first)).await;
    let next = granted(store, &request("next")).await;
    assert_eq!(lease(&next), lease(&first));
    (first, next)
}

async fn first_entry(store: &Store, on: &str) -> StoredEntry {
    store.first_entry(&name(on)).await.unwrap().0.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn late_requests_of_a_released_grant_do_not_touch_the_grant_that_has_its_lease() {
    let (_etcd, store) = pooling().await;
    let wanted = request("job");
    let (first, next) = after_a_return(&store, &wanted).await;
    for keep in [None, Some(LEASE)] {
        let late = store.release(&first, ReleaseOptions::new().with_keep(keep)).await.unwrap();
        assert_eq!(late.outcome, ReleaseOutcome::NotHeld);
    }
    let late = store.renew(&[&first], SystemEnv.now()).await.pop().unwrap();
    assert!(matches!(late, Renewal::Lost(_)), "{late:?}");
    store.abandon(&wanted).await.unwrap();
    assert!(is_held(&store, "next").await, "a late request ended another lock");
    let answer = store.renew(&[&next], SystemEnv.now()).await.pop().unwrap();
    assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
}

/// As if the renewal had begun before the release, and its keepalive was answered after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_whose_entry_was_deleted_is_not_renewed() {
    let (_etcd, store) = pooling().await;
    let grant = granted(&store, &request("job")).await;
    let other = granted(&store, &request("other")).await;
    for grant in [&grant, &other] {
        assert!(held(grant).begin_return());
    }
    store
        .rpc
        .txn(
            etcd_client::Txn::new()
                .and_then([etcd_client::TxnOp::delete(held(&grant).key(), None)]),
        )
        .await
        .unwrap();
    let answer = store.renew(&[&grant, &other], SystemEnv.now()).await;
    assert!(matches!(&answer[..], [Renewal::Lost(_), Renewal::Renewed { .. }]), "{answer:?}");
}

/// The validity of the next grant counts from the grant of the lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_returned_lease_counts_from_when_it_was_granted() {
    let (_etcd, store) = pooling().await;
    let grant = granted(&store, &request("job")).await;
    release(&store, &grant).await;
    let pooled = returned(&store, lease(&grant)).await;
    assert_eq!(pooled.from, grant.from, "it is believed for longer than etcd keeps it");
}

/// An operator or a clean-up has read the entry before it was released.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_was_read_is_revoked_only_while_it_is_there() {
    let (_etcd, store) = pooling().await;
    let first = granted(&store, &request("job")).await;
    let seen = first_entry(&store, "job").await;
    release(&store, &first).await;
    // On its own name, and on that of the entry, with the same key.
    for on in ["next", "job"] {
        is_next(&store, lease(&first)).await;
        let next = granted(&store, &request(on)).await;
        assert_eq!(lease(&next), seen.lease);
        assert!(!revoke(&store, &seen).await.unwrap());
        assert!(is_held(&store, on).await, "another lock was ended");
        release(&store, &next).await;
    }
}

/// An operator or a clean-up has begun to end the entry, and the holder releases it meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_an_entry_that_others_end_is_not_returned() {
    let etcd = start().await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let store = open_with_pool(etcd.endpoints()[0], PATIENCE, POOL).await;
    let operator = open(streams.address()).await;
    let ends: [&str; 2] = ["force", "abandon"];
    for how in ends {
        let wanted = request("job");
        let grant = granted(&store, &wanted).await;
        streams.hold_next("LeaseRevoke", "");
        let ending = tokio::spawn({
            let operator = Arc::clone(&operator);
            async move {
                match how {
                    "force" => operator.force_release(&wanted.name).await.map(drop),
                    _ => operator.abandon(&wanted).await,
                }
            }
        });
        let held = async {
            while !streams.holds("LeaseRevoke") {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, held).await.expect("it revokes the lease");
        release(&store, &grant).await;
        let next = granted(&store, &request("next")).await;
        assert!(streams.deliver("LeaseRevoke").await, "{how}: it was not held up");
        ending.await.unwrap().unwrap();
        assert!(is_held(&store, "next").await, "{how} has ended another lock");
        assert!(!lives(&store, lease(&grant)).await, "{how}: the lease is left");
        release(&store, &next).await;
    }
}

/// Both grants of a repeated request have the same lease.
#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_repeated_grant_is_not_returned() {
    for first_released in [0, 1] {
        let (_etcd, store) = pooling().await;
        let wanted = request("job");
        let grants = [granted(&store, &wanted).await, granted(&store, &wanted).await];
        assert_eq!(lease(&grants[0]), lease(&grants[1]));
        assert_eq!(grants[0].token, grants[1].token);
        release(&store, &grants[first_released]).await;
        assert!(!lives(&store, lease(&grants[0])).await, "the other grant would end it later");
    }
}

/// The answer to the deletion is lost: it may be carried out late, or never.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_not_returned_after_a_lost_answer() {
    let etcd = start().await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let store = open_with_pool(streams.address(), Duration::from_secs(4), POOL).await;
    let direct = open(etcd.endpoints()[0]).await;
    let grant = granted(&store, &request("job")).await;
    // Its stream keeps the connection open on which the call is held.
    store.renew(&[&grant], SystemEnv.now()).await;
    streams.hold_next("Txn", "leasehold/job/");
    let error = store.release(&grant, ReleaseOptions::default()).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(streams.holds("Txn"), "the fault did not happen");
    let released = async {
        loop {
            match store.release(&grant, ReleaseOptions::default()).await {
                Ok(released) => return released,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    let released = tokio::time::timeout(PATIENCE, released).await.expect("an answer");
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    assert!(!lives(&direct, lease(&grant)).await, "the lease was returned");
    // The same key, in the next grant.
    let next = granted(&direct, &request("job")).await;
    assert!(streams.deliver("Txn").await, "it was not held up");
    assert!(is_held(&direct, "job").await, "a late release ended another lock");
    release(&direct, &next).await;
}

/// Etcd before 3.4.20 and 3.5.7 refuses it where the quota is exceeded. Later ones carry it out.
#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_revoked_where_etcd_has_no_room_for_the_deletion() {
    let etcd = start().await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let store = open_with_pool(streams.address(), PATIENCE, POOL).await;
    let grant = granted(&store, &request("job")).await;
    streams.refuse_with("Txn", "etcdserver: mvcc: database space exceeded");
    let released = store.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    assert!(streams.refused("Txn") > 0, "the fault did not happen");
    streams.serve("Txn");
    assert!(!is_held(&store, "job").await, "it was not released");
    assert!(!lives(&store, lease(&grant)).await, "the lease is left");
}

/// The entry is deleted, and its lease can be neither returned nor revoked.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_released_although_its_lease_is_left() {
    let etcd = start().await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let store = open_with_pool(streams.address(), PATIENCE, POOL).await;
    let grant = granted(&store, &request("job")).await;
    store.close().await;
    streams.refuse("LeaseRevoke");
    let released = store.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    assert!(streams.refused("LeaseRevoke") > 0, "the fault did not happen");
    assert!(!is_held(&store, "job").await, "it was not released");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_hangs_on_the_lease_of_a_lock_ends_with_the_lock() {
    let (etcd, store) = pooling().await;
    let grant = granted(&store, &request("job")).await;
    let by = format!("--lease={:x}", lease(&grant));
    etcd.ctl(&["put", &by, "theirs", "x"]).await.unwrap();
    release(&store, &grant).await;
    assert_eq!(etcd.ctl(&["get", "theirs", "--keys-only"]).await.unwrap(), "", "it is left");
    assert!(!lives(&store, lease(&grant)).await);
    assert_ne!(lease(&granted(&store, &request("job")).await), lease(&grant));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_released_grant_is_not_held_by_it_any_more() {
    let (_etcd, store) = pooling().await;
    let locks = lock_core::LockClient::new(Arc::clone(&store) as Arc<dyn lock_core::Backend>);
    let acquire = || locks.lock("job").lease(LEASE).acquire();
    let first = acquire().await.unwrap();
    let late = HeldKey::of(&first).unwrap();
    let returned = lease(first.grant());
    first.release().await.unwrap();
    is_next(&store, returned).await;
    let second = acquire().await.unwrap();
    let present = HeldKey::of(&second).unwrap();
    assert_eq!((late.key(), returned), (present.key(), lease(second.grant())));
    let holds = async |held: &HeldKey| {
        let txn = etcd_client::Txn::new().when(held.is_held());
        store.rpc.txn(txn).await.unwrap().succeeded()
    };
    assert!(holds(&present).await);
    assert!(!holds(&late).await, "a released grant counts as held");
}

/// In a restored cluster, the key of an earlier grant may live by the lease again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_another_history_is_not_used() {
    let (_etcd, store) = pooling().await;
    let now = history(&store).await;
    let other = now.wrapping_add(1);
    let old = store.rpc.grant(LEASE).await.unwrap();
    store.leases.put_back(old, now);
    assert_ne!(store.leases.take(LEASE, other).await.unwrap().id, old.id);
    // It has left the pool for good, and a late release returns none of that history.
    assert!(!store.leases.pool.put(old, now));
    let grant = granted(&store, &request("job")).await;
    assert_ne!(lease(&grant), old.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_long_hold_is_revoked() {
    let (_etcd, store) = pooling().await;
    let now = SystemEnv.now();
    let from = |ago: Duration| Instant::from_nanos(now.as_nanos() - ago.as_nanos() as u64);
    let may_return =
        |ago| store.leases.pool.may_return(Lease { id: 1, ttl: LEASE, from: from(ago) });
    assert!(may_return(Duration::ZERO));
    assert!(!may_return(LEASE / 6));
}

/// Without a pool, for readers, and after a wait.
#[tokio::test(flavor = "multi_thread")]
async fn other_leases_are_revoked_as_before() {
    let (etcd, store) = pooling().await;
    let none = open(etcd.endpoints()[0]).await;
    let grant = granted(&none, &request("job")).await;
    release(&none, &grant).await;
    assert!(!lives(&store, lease(&grant)).await, "without a pool");

    let grant = granted(&store, &request("job").with_mode(lock_core::Mode::Shared)).await;
    release(&store, &grant).await;
    assert!(!lives(&store, lease(&grant)).await, "of a reader");

    let (before, wanted) = (granted(&store, &request("job")).await, request("job"));
    let _waiter = waits(&store, &wanted).await;
    release(&store, &before).await;
    let grant = granted(&store, &wanted).await;
    release(&store, &grant).await;
    assert!(!lives(&store, lease(&grant)).await, "after a wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_full_or_closed_takes_no_lease() {
    let etcd = start().await;
    let pool = 4;
    let store = open_with_pool(etcd.endpoints()[0], PATIENCE, pool).await;
    let mut grants = Vec::new();
    for at in 0..3 * pool {
        grants.push(granted(&store, &request(&format!("job {at}"))).await);
    }
    for grant in &grants {
        release(&store, grant).await;
    }
    let mut left = 0;
    for grant in &grants {
        left += usize::from(lives(&store, lease(grant)).await);
    }
    assert!(left <= pool, "{left} leases in a pool of {pool}");
    let last = granted(&store, &request("job")).await;
    store.close().await;
    release(&store, &last).await;
    for grant in grants.iter().chain([&last]) {
        assert!(!lives(&store, lease(grant)).await, "left behind");
    }
}
