//! etcd when the network or a member fails while a lock is held or waited for.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{net::SocketAddr, sync::Arc, time::Duration};

use conformance_tests::kit::{Etcd, EtcdOptions, Mode, Proxy, Server as _};
use lock_core::{
    Backend, Env as _, LockClient, LockName, LossReason, OwnerId, OwnerLabel, Request, SystemEnv,
};

/// Longer than any test takes: what is left behind stays.
const LEASE: Duration = Duration::from_secs(30);
/// Shorter than the lease: what is left behind is in the way.
const WAIT: Duration = Duration::from_secs(20);

async fn connect(address: SocketAddr, timeout: &str) -> Arc<dyn Backend> {
    backend_etcd::connect(&format!("etcd://{address}?timeout={timeout}")).await.unwrap()
}

fn name() -> LockName {
    LockName::new("job").unwrap()
}

fn request() -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    Request::new(name(), owner, OwnerLabel::new("test").unwrap(), LEASE, SystemEnv.now())
}

/// Until somebody waits behind the holder.
async fn somebody_waits(backend: &dyn Backend) {
    let waits = async {
        while backend.inspect(&name()).await.unwrap().and_then(|state| state.waiting) != Some(1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(WAIT, waits).await.expect("somebody waits");
}

/// A client that holds `job`, and one that waits for it.
async fn held_and_waited_for(
    holder: Arc<dyn Backend>,
    waiter: Arc<dyn Backend>,
) -> (lock_core::Guard, tokio::task::JoinHandle<lock_core::Guard>) {
    let guard =
        LockClient::new(Arc::clone(&holder)).lock("job").lease(LEASE).acquire().await.unwrap();
    let waiter = LockClient::new(waiter);
    let waiting = tokio::spawn(async move {
        waiter.lock("job").lease(LEASE).wait(WAIT * 3).acquire().await.unwrap()
    });
    somebody_waits(&*holder).await;
    (guard, waiting)
}

/// The attempt arrives and its answer is lost: the outcome is unknown, and the clean-up leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_leaves_no_lock() {
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let direct = connect(etcd.endpoints()[0], "10s").await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let behind = connect(proxy.address(), "500ms").await;
    proxy.set(Mode::HalfCut).await.unwrap();
    let lost = request();
    let error = behind.try_acquire(&lost).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(proxy.counters().to_client.swallowed > 0, "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    direct.abandon(&lost).await.unwrap();
    assert!(direct.try_acquire(&request()).await.unwrap().granted().is_some());
}

/// Cut off for longer than its lease, a holder learns of its loss by the clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_cut_off_learns_it_when_its_validity_ends() {
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let direct = LockClient::new(connect(etcd.endpoints()[0], "10s").await);
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let behind = LockClient::new(connect(proxy.address(), "500ms").await);
    let lease = Duration::from_secs(2);
    let guard = behind.lock("job").lease(lease).acquire().await.unwrap();
    proxy.set(Mode::BlackHole).await.unwrap();
    let reason = tokio::time::timeout(WAIT, guard.lost()).await.expect("it is told");
    assert!(matches!(reason, LossReason::Unreachable | LossReason::Expired), "{reason:?}");
    assert!(proxy.counters().to_server.swallowed > 0, "the fault did not happen");
    let next = direct.lock("job").wait(WAIT).acquire().await.unwrap();
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
    // And it goes on when the network does.
    proxy.set(Mode::Pass).await.unwrap();
    behind.lock("job").wait(WAIT).acquire().await.unwrap().release().await.unwrap();
}

/// Broken connections cost neither the holder its lock nor the waiter its place.
#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_lose_neither_lock_nor_place() {
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let holder = connect(proxy.address(), "5s").await;
    let (guard, waiting) = held_and_waited_for(holder, connect(proxy.address(), "5s").await).await;
    let place = etcd.ctl(&["get", "--prefix", "--keys-only", "leasehold/job/"]).await.unwrap();
    proxy.set(Mode::Reset).await.unwrap();
    assert!(proxy.counters().reset >= 2, "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    assert!(guard.is_valid());
    let after = etcd.ctl(&["get", "--prefix", "--keys-only", "leasehold/job/"]).await.unwrap();
    assert_eq!(after, place);
    let token = guard.token();
    guard.release().await.unwrap();
    let next = tokio::time::timeout(WAIT, waiting).await.expect("it is served").unwrap();
    assert!(next.token() > token);
}

/// Locks and places outlive a crash of etcd.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_etcd_loses_neither_lock_nor_place() {
    let mut etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let address = etcd.endpoints()[0];
    let holder = connect(address, "5s").await;
    let (guard, waiting) = held_and_waited_for(holder, connect(address, "5s").await).await;
    let pid = etcd.members()[0].process().pid().unwrap();
    etcd.member_mut(0).process_mut().kill().unwrap();
    etcd.member_mut(0).process_mut().start_again().unwrap();
    etcd.wait_healthy().await.unwrap();
    assert_ne!(etcd.members()[0].process().pid().unwrap(), pid, "the fault did not happen");
    assert!(guard.is_valid());
    let token = guard.token();
    guard.release().await.unwrap();
    let next = tokio::time::timeout(WAIT, waiting).await.expect("it is served").unwrap();
    assert!(next.token() > token);
}

/// The leader is killed while a lock is held and waited for: the others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_costs_neither_lock_nor_place() {
    let mut etcd = Etcd::three(EtcdOptions::new()).await.unwrap();
    let endpoints: Vec<_> = etcd.endpoints().iter().map(ToString::to_string).collect();
    let url = format!("etcd://{}?timeout=2s", endpoints.join(","));
    let holder = backend_etcd::connect(&url).await.unwrap();
    let waiter = backend_etcd::connect(&url).await.unwrap();
    let (guard, waiting) = held_and_waited_for(holder, waiter).await;
    let leader = etcd.leader().await.unwrap();
    etcd.member_mut(leader).process_mut().kill().unwrap();
    assert_ne!(etcd.leader().await.unwrap(), leader, "the fault did not happen");
    assert!(guard.is_valid());
    let token = guard.token();
    guard.release().await.unwrap();
    let next = tokio::time::timeout(WAIT, waiting).await.expect("it is served").unwrap();
    assert!(next.token() > token);
}
