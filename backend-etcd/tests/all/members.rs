//! A cluster of three with a paused member, and one without a majority.

use std::{sync::Arc, time::Duration};

use futures_util::future::{join_all, select_all, try_join_all};
use lock_core::{Backend, Env as _, Guard, LockClient, LossReason, Promise, SystemEnv};
use servers::{Etcd, EtcdOptions, Server as _};

use crate::support::{
    LEASE, WAIT, connect_all, hands_over, held_and_waited_for, renewed, request_for,
};

/// How many bytes a member has received from clients.
async fn received(etcd: &Etcd, member: usize) -> f64 {
    let bytes = "etcd_network_client_grpc_received_bytes_total";
    etcd.members()[member].metric(bytes).await.unwrap()
}

/// A client that uses this member, and may switch to the others.
async fn client_of(etcd: &Etcd, member: usize) -> Arc<dyn Backend> {
    for _ in 0..100 {
        let before = received(etcd, member).await;
        let backend = connect_all(&etcd.endpoints(), "2s").await;
        if received(etcd, member).await > before {
            return backend;
        }
    }
    panic!("no client of a hundred chose member {member}");
}

async fn a_paused_member_costs_neither_lock_nor_entry(pause_leader: bool) {
    let etcd = Etcd::three(EtcdOptions::new()).await.unwrap();
    let leader = etcd.leader().await.unwrap();
    let paused = if pause_leader { leader } else { (leader + 1) % 3 };
    let (holder, waiter) = (client_of(&etcd, paused).await, client_of(&etcd, paused).await);
    let (guard, waiting) = held_and_waited_for(holder, waiter).await;
    // It is renewed after 2 s and 4 s at the latest: over another member.
    let lease = Duration::from_secs(6);
    let short = LockClient::new(client_of(&etcd, paused).await);
    let short = short.lock("short").lease(lease).acquire().await.unwrap();
    etcd.members()[paused].pause().unwrap();
    let since = SystemEnv.now();
    let next = etcd.leader().await.unwrap();
    assert_eq!(next != leader, pause_leader, "the fault did not happen");
    renewed(&short, since, lease).await;
    drop(hands_over(guard, waiting).await);
    short.release().await.unwrap();
    etcd.members()[paused].resume().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_follower_costs_neither_lock_nor_entry() {
    a_paused_member_costs_neither_lock_nor_entry(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_leader_costs_neither_lock_nor_entry() {
    a_paused_member_costs_neither_lock_nor_entry(true).await;
}

/// Whether this version keeps a leader that comes back from revoking leases (etcd issue 15247).
fn is_fixed(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap());
    let version: [u32; 3] = std::array::from_fn(|_| numbers.next().unwrap());
    version >= if version[..2] == [3, 4] { [3, 4, 31] } else { [3, 5, 13] }
}

/// More than the 16 leases that an etcd revokes at a time. A leader that comes back revokes the
/// first 16 in its own term, where it cannot succeed. By the next 16, it has learnt of the new
/// leader and forwards them.
const MANY: usize = 64;

/// Why `Guarantees` assumes that no leader comes back: by its own count, leases that were renewed
/// while it was paused have expired, and an etcd without the fix revokes them.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_comes_back_revokes_what_was_renewed_without_it() {
    let mut etcd = Etcd::three(EtcdOptions::new()).await.unwrap();
    let metrics = etcd.members()[0].metrics().await.unwrap();
    let (_, version) = metrics.split_once("etcd_server_version{server_version=\"").unwrap();
    let fixed = is_fixed(version.split('"').next().unwrap());
    let backend = connect_all(&etcd.endpoints(), "1s").await;
    let promised = backend.guarantees().exclusion.clone();
    let Promise::Holds { assuming } = promised else { panic!("{promised:?}") };
    assert!(assuming.iter().any(|assumption| assumption.id == "no-leader-comes-back"));
    let client = LockClient::new(backend);
    // Long enough for the other members to elect a leader, even on a busy machine.
    let lease = Duration::from_secs(5);
    let mut revoked = false;
    // It may learn of the new leader before it revokes anything. And the fix leaves a moment in
    // which it may revoke.
    let (tries, count) = if fixed { (2, 1) } else { (10, MANY) };
    for _ in 0..tries {
        let leader = etcd.leader().await.unwrap();
        let acquire = |i| client.lock(format!("kept-{i}")).lease(lease).wait(WAIT).acquire();
        let guards = try_join_all((0..count).map(acquire)).await.unwrap();
        etcd.members()[leader].pause().unwrap();
        let over = SystemEnv.now() + lease + Duration::from_millis(500);
        assert_ne!(etcd.leader().await.unwrap(), leader, "the fault did not happen");
        SystemEnv.sleep_until(over).await;
        let renewed: Vec<_> = guards.iter().filter(|guard| guard.is_valid()).collect();
        assert!(2 * renewed.len() > count, "they were renewed over the new leader");
        etcd.members()[leader].resume().unwrap();
        let losses = renewed.iter().map(|guard| Box::pin(guard.lost()));
        if let Ok((reason, ..)) = tokio::time::timeout(2 * lease, select_all(losses)).await {
            assert!(matches!(reason, LossReason::TakenOver | LossReason::Gone), "{reason:?}");
            revoked = true;
            break;
        }
        join_all(guards.into_iter().map(Guard::release)).await;
        etcd.wait_healthy().await.unwrap();
    }
    assert_eq!(revoked, !fixed);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_nothing_is_granted_and_with_it_clients_continue() {
    let mut etcd = Etcd::three(EtcdOptions::new()).await.unwrap();
    let holder = connect_all(&etcd.endpoints(), "1s").await;
    let waiter = connect_all(&etcd.endpoints(), "1s").await;
    let (guard, waiting) = held_and_waited_for(Arc::clone(&holder), waiter).await;
    let client = LockClient::new(Arc::clone(&holder));
    let short = client.lock("short").lease(Duration::from_secs(2)).acquire().await.unwrap();
    for member in 0..2 {
        etcd.members()[member].pause().unwrap();
    }
    // The holder of a lease that ends meanwhile learns of it by its clock.
    let reason = tokio::time::timeout(WAIT, short.lost()).await.expect("a loss");
    assert!(matches!(reason, LossReason::Unreachable | LossReason::Expired), "{reason:?}");
    let other = request_for("other");
    let error = holder.try_acquire(&other).await.expect_err("the fault did not happen");
    assert!(error.is_retryable(), "{error}");
    for member in 0..2 {
        etcd.members()[member].resume().unwrap();
    }
    etcd.wait_healthy().await.unwrap();
    drop(hands_over(guard, waiting).await);
    holder.abandon(&other).await.unwrap();
    client.lock("short").lease(LEASE).wait(WAIT).acquire().await.unwrap().release().await.unwrap();
    client.lock("other").wait(WAIT).acquire().await.unwrap().release().await.unwrap();
}
