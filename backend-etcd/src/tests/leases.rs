//! How long a client may believe in a lease, and how a lease is kept alive.

use lock_core::{Env as _, SystemEnv};
use servers::{Mode, Proxy};

use super::*;
/// Shorter than the time limit of a keepalive.
const LATE: Duration = Duration::from_millis(600);

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_counts_from_when_its_keepalive_was_sent() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let store = open(proxy.address()).await;
    let lease = store.rpc.grant(LEASE).await.unwrap().id;
    store.keepalives.extend(lease).await.unwrap();
    let delay = Mode::Delay { to_server: Duration::ZERO, to_client: LATE };
    proxy.set(delay).await.unwrap();
    let extended = async {
        loop {
            // On a busy machine a keepalive may exceed its time limit.
            if let Ok(Some(extended)) = store.keepalives.extend(lease).await {
                return extended;
            }
        }
    };
    let extended = tokio::time::timeout(PATIENCE, extended).await.expect("an answer");
    let answered = SystemEnv.now();
    assert!(extended.from + LATE <= answered, "it is believed for longer than etcd keeps it");
}

/// After this long, the remaining TTL shows whether a lease was just kept alive.
const OLD: Duration = Duration::from_secs(3);

/// A caller that has given up may have given up the lease as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_keepalive_whose_caller_has_given_up_is_not_sent() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let store = open_within(proxy.address(), Duration::from_secs(3)).await;
    let direct = open(etcd.endpoints()[0]).await;
    let (first, given_up) =
        (store.rpc.grant(LEASE).await.unwrap(), store.rpc.grant(LEASE).await.unwrap());
    tokio::time::sleep(OLD).await;
    proxy.set(Mode::BlackHole).await.unwrap();
    // They stay in the inbox until the first has waited in vain for a stream.
    let asked = [first.id].into_iter().chain([given_up.id; 8]);
    let asked =
        futures_util::future::join_all(asked.map(|lease| store.keepalives.extend(lease))).await;
    assert!(asked.iter().all(Result::is_err), "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    let answered = async { while store.keepalives.extend(first.id).await.is_err() {} };
    tokio::time::timeout(PATIENCE, answered).await.expect("it is reached again");
    let left = direct.rpc.remaining(given_up.id).await.unwrap();
    assert!(left <= LEASE - OLD, "it was kept alive: {left:?} are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooled_lease_counts_from_when_it_was_granted() {
    let (_etcd, [one, _]) = pair().await;
    granted(&one, &request("held")).await;
    // A refused attempt returns its lease to the pool.
    not_granted(&one, &request("held")).await;
    let pooled = SystemEnv.now();
    let grant = granted(&one, &request("job")).await;
    assert!(grant.from <= pooled, "it is believed for longer than etcd keeps it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_pooled_lease_is_kept_alive_before_it_is_used() {
    let (_etcd, [one, _]) = pair().await;
    let history = history(&one).await;
    let short = Duration::from_secs(6);
    let pooled = one.leases.take(short, history).await.unwrap();
    one.leases.put_back(pooled, history);
    tokio::time::sleep(short / 5).await;
    let wanted = SystemEnv.now();
    let lease = one.leases.take(short, history).await.unwrap();
    assert!(lease.from >= wanted, "a part of it has passed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooled_lease_that_has_ended_is_not_used() {
    let (etcd, [one, _]) = pair().await;
    let history = history(&one).await;
    let pooled = one.leases.take(LEASE, history).await.unwrap();
    one.leases.put_back(pooled, history);
    end(&etcd, pooled.id).await;
    granted(&one, &request("job")).await;
}

/// Otherwise an acquire would wait once for each pooled lease.
#[tokio::test(flavor = "multi_thread")]
async fn only_one_pooled_lease_is_tried_while_etcd_does_not_answer() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let (limit, leases) = (Duration::from_secs(4), 20);
    let store = open_with_pool(proxy.address(), limit, leases as usize).await;
    let history = history(&store).await;
    // Old enough to be kept alive before it is used.
    let old = SystemEnv.now().as_nanos() - (LEASE / 4).as_nanos() as u64;
    for id in 1..=leases {
        let from = lock_core::Instant::from_nanos(old);
        store.leases.put_back(crate::rpc::Lease { id, ttl: LEASE, from }, history);
    }
    proxy.set(Mode::BlackHole).await.unwrap();
    let began = SystemEnv.now();
    store.leases.take(LEASE, history).await.expect_err("nothing is answered");
    let asked = SystemEnv.now().since(began);
    assert!(asked < limit * leases as u32 / 2, "it took {asked:?}");
}
