//! The network or etcd fails while a lock is held or waited for.

use servers::{Mode, Server as _};

use crate::support::{
    WAIT, connect, entries, granted, hands_over, held_and_waited_for, proxied, request,
    request_for, single,
};

/// The attempt arrives and its answer is lost: the outcome is unknown, and the clean-up leaves
/// nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_leaves_no_lock() {
    let (_etcd, proxy, [direct, behind]) = proxied("500ms").await;
    proxy.set(Mode::HalfCut).await.unwrap();
    let lost = request();
    let error = behind.try_acquire(&lost).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(proxy.counters().to_client.swallowed > 0, "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    direct.abandon(&lost).await.unwrap();
    granted(&*direct, &request()).await;
}

/// For less than the lease the network swallows everything, then refuses connections, then breaks
/// those that it has.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_network_fault_loses_neither_lock_nor_entry() {
    let (etcd, proxy, [_, holder]) = proxied("1s").await;
    let (guard, waiting) = held_and_waited_for(holder, connect(proxy.address(), "1s").await).await;
    let before = entries(&etcd).await;
    let swallowed = proxy.counters().to_server.swallowed;
    proxy.set(Mode::BlackHole).await.unwrap();
    proxy.until("a lost poll", WAIT, |now| now.to_server.swallowed > swallowed).await.unwrap();
    proxy.set(Mode::Cut).await.unwrap();
    let url = format!("etcd://{}?timeout=1s", proxy.address());
    let error = backend_etcd::connect(&url).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    proxy.set(Mode::Pass).await.unwrap();
    proxy.until("a new connection", WAIT, |now| now.open > 0).await.unwrap();
    let reset = proxy.counters().reset;
    proxy.set(Mode::Reset).await.unwrap();
    assert!(proxy.counters().reset > reset, "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    assert_eq!(entries(&etcd).await, before);
    drop(hands_over(guard, waiting).await);
}

/// A firewall drops what it knows, and new connections work. It costs one time limit until the next
/// grant, and not the time until a ping has no answer.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_go_silent_cost_one_time_limit() {
    let (_etcd, proxy, [_, behind]) = proxied("3s").await;
    proxy.set(Mode::Silent).await.unwrap();
    let lost = request();
    let error = behind.try_acquire(&lost).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(proxy.counters().to_server.swallowed > 0, "the fault did not happen");
    let next = request_for("next");
    let granted = behind.try_acquire(&next).await.expect("a new connection").granted();
    assert!(granted.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_etcd_loses_neither_lock_nor_entry() {
    let mut etcd = single().await;
    let address = etcd.endpoints()[0];
    let holder = connect(address, "5s").await;
    let (guard, waiting) = held_and_waited_for(holder, connect(address, "5s").await).await;
    let pid = etcd.members()[0].process().pid().unwrap();
    etcd.member_mut(0).process_mut().kill().unwrap();
    etcd.member_mut(0).process_mut().start_again().unwrap();
    etcd.wait_healthy().await.unwrap();
    assert_ne!(etcd.members()[0].process().pid().unwrap(), pid, "the fault did not happen");
    drop(hands_over(guard, waiting).await);
}
