//! etcd when the network or a member fails while a lock is held or waited for.

use std::time::Duration;

use conformance_tests::kit::{Etcd, EtcdOptions, Mode, Proxy, Server as _};
use lock_core::{LockClient, LossReason};

use crate::support::{WAIT, connect, held_and_waited_for, request, served, single};

/// The attempt arrives and its answer is lost: the outcome is unknown, and the clean-up leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_leaves_no_lock() {
    let etcd = single().await;
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
    let etcd = single().await;
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

/// Cut off for less than its lease, neither side loses anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_cut_loses_neither_lock_nor_place() {
    let etcd = single().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let holder = connect(proxy.address(), "1s").await;
    let (guard, waiting) = held_and_waited_for(holder, connect(proxy.address(), "1s").await).await;
    let place = etcd.ctl(&["get", "--prefix", "--keys-only", "leasehold/job/"]).await.unwrap();
    let before = proxy.counters().to_server.swallowed;
    proxy.set(Mode::BlackHole).await.unwrap();
    // The waiter's polls are lost, and it goes on.
    proxy.until("a lost request", WAIT, |now| now.to_server.swallowed > before).await.unwrap();
    proxy.set(Mode::Cut).await.unwrap();
    let url = format!("etcd://{}?timeout=1s", proxy.address());
    let error = backend_etcd::connect(&url).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    proxy.set(Mode::Pass).await.unwrap();
    assert!(guard.is_valid());
    let after = etcd.ctl(&["get", "--prefix", "--keys-only", "leasehold/job/"]).await.unwrap();
    assert_eq!(after, place);
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(served(waiting).await.token() > token);
}

/// Broken connections cost neither the holder its lock nor the waiter its place.
#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_lose_neither_lock_nor_place() {
    let etcd = single().await;
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
    assert!(served(waiting).await.token() > token);
}

/// Locks and places outlive a crash of etcd.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_etcd_loses_neither_lock_nor_place() {
    let mut etcd = single().await;
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
    assert!(served(waiting).await.token() > token);
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
    assert!(served(waiting).await.token() > token);
}
