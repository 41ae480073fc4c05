//! A cluster of three with a paused member, and one without a majority.

use std::{sync::Arc, time::Duration};

use futures_util::future::{select_all, try_join_all};
use lock_core::{Backend, Env as _, LockClient, LossReason, Promise, SystemEnv};
use servers::{Etcd, EtcdOptions, Mode, Proxy, Server as _};

use crate::support::{
    LEASE, WAIT, connect_all, hands_over, held_and_waited_for, renewed, request_for, until,
};

/// How many bytes a member has received from clients.
async fn received(etcd: &Etcd, member: usize) -> f64 {
    let bytes = "etcd_network_client_grpc_received_bytes_total";
    etcd.members()[member].metric(bytes).await.unwrap()
}

/// A cluster of three, each member behind a proxy for clients. A busy machine does not make it
/// elect another leader.
async fn cluster() -> (Etcd, Vec<Proxy>) {
    let options = EtcdOptions::new().flag("--election-timeout=2000");
    let etcd = Etcd::three(options).await.unwrap();
    let proxies = try_join_all(etcd.endpoints().into_iter().map(Proxy::start)).await.unwrap();
    (etcd, proxies)
}

/// A client that uses this member, the only one that it reaches at first, and may switch to the
/// others.
async fn client_of(etcd: &Etcd, proxies: &[Proxy], member: usize) -> Arc<dyn Backend> {
    let before = received(etcd, member).await;
    let others = || proxies.iter().zip(0..).filter(|(_, at)| *at != member);
    for (other, _) in others() {
        other.set(Mode::Cut).await.unwrap();
    }
    let addresses: Vec<_> = proxies.iter().map(Proxy::address).collect();
    let backend = connect_all(&addresses, "2s").await;
    for (other, _) in others() {
        other.set(Mode::Pass).await.unwrap();
    }
    assert!(received(etcd, member).await > before, "it does not use member {member}");
    backend
}

async fn a_paused_member_costs_neither_lock_nor_entry(pause_leader: bool) {
    let (etcd, proxies) = cluster().await;
    let leader = etcd.leader().await.unwrap();
    let paused = if pause_leader { leader } else { (leader + 1) % 3 };
    let client = async || client_of(&etcd, &proxies, paused).await;
    let (guard, waiting) = held_and_waited_for(client().await, client().await).await;
    // Its first renewal after the pause has no answer for 2 s, and then goes to another member.
    let lease = LEASE / 2;
    let short = LockClient::new(client().await);
    let short = short.lock("short").lease(lease).acquire().await.unwrap();
    let leads = etcd.members()[paused].metric("etcd_server_is_leader").await.unwrap() == 1.0;
    assert_eq!(leads, pause_leader, "the fault did not happen");
    etcd.members()[paused].pause().unwrap();
    let since = SystemEnv.now();
    etcd.leader().await.expect("a leader among the others");
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
/// first 16 in its own term, where it cannot succeed. When these time out, it has learnt of the new
/// leader and forwards the next ones.
const MANY: usize = 32;

/// Why `Guarantees` assumes that no leader comes back: by its own count, leases that were renewed
/// while it was paused have expired, and an etcd without the fix revokes them. What the others send
/// waits until it has begun: otherwise it may learn of the new leader first.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_comes_back_revokes_what_was_renewed_without_it() {
    // A leader looks for expired leases twice a second. So it is to lead that long without the
    // others.
    let options = EtcdOptions::new().peers_by_proxy().flag("--election-timeout=1000");
    let etcd = Etcd::three(options).await.unwrap();
    let metrics = etcd.members()[0].metrics().await.unwrap();
    let (_, version) = metrics.split_once("etcd_server_version{server_version=\"").unwrap();
    let fixed = is_fixed(version.split('"').next().unwrap());
    let backend = connect_all(&etcd.endpoints(), "3s").await;
    let promised = backend.guarantees().exclusion.clone();
    let Promise::Holds { assuming } = promised else { panic!("{promised:?}") };
    assert!(assuming.iter().any(|assumption| assumption.id == "no-leader-comes-back"));
    let client = LockClient::new(backend);
    // Long enough for the other members to elect a leader, even on a busy machine.
    let lease = LEASE / 2;
    let acquire = |i| client.lock(format!("kept-{i}")).lease(lease).wait(WAIT).acquire();
    let guards = try_join_all((0..MANY).map(acquire)).await.unwrap();
    let peers: Vec<_> =
        etcd.members().iter().map(|member| member.peer_proxy().expect("a proxy")).collect();
    let all = async |mode| try_join_all(peers.iter().map(|peer| peer.set(mode))).await.unwrap();

    let leader = etcd.leader().await.unwrap();
    let old = &etcd.members()[leader];
    old.pause().unwrap();
    let paused = SystemEnv.now();
    // Nothing more reaches it, and the others connect again.
    all(Mode::Cut).await;
    for (peer, at) in peers.iter().zip(0..) {
        if at != leader {
            peer.set(Mode::Pass).await.unwrap();
        }
    }
    assert_ne!(etcd.leader().await.unwrap(), leader, "the fault did not happen");
    SystemEnv.sleep_until(paused + lease + Duration::from_millis(500)).await;
    let renewed: Vec<_> = guards.iter().filter(|guard| guard.is_valid()).collect();
    assert!(2 * renewed.len() > MANY, "they were renewed over the new leader");
    all(Mode::Hold).await;
    old.resume().unwrap();
    until("revocations, or the end of its term", async || {
        let is_zero = async |metric| old.metric(metric).await.unwrap() == 0.0;
        !is_zero("etcd_server_proposals_pending").await || is_zero("etcd_server_is_leader").await
    })
    .await;
    all(Mode::Pass).await;
    let losses = select_all(renewed.iter().map(|guard| Box::pin(guard.lost())));
    if fixed {
        // Longer than revocations need to time out.
        assert!(tokio::time::timeout(WAIT, losses).await.is_err(), "a renewed lease was revoked");
    } else {
        let (reason, ..) = tokio::time::timeout(WAIT * 2, losses).await.expect("a revocation");
        assert!(matches!(reason, LossReason::TakenOver | LossReason::Gone), "{reason:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_nothing_is_granted_and_with_it_clients_continue() {
    let mut etcd = Etcd::three(EtcdOptions::new()).await.unwrap();
    let holder = connect_all(&etcd.endpoints(), "3s").await;
    let waiter = connect_all(&etcd.endpoints(), "3s").await;
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
