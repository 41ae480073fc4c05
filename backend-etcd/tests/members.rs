//! A cluster of three with a member that stands still, and one without a majority.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Etcd, EtcdOptions, Server as _};
use lock_core::{Backend, Env as _, LockClient, LossReason, SystemEnv};

use self::support::{LEASE, WAIT, connect_all, held_and_waited_for, request, served};

/// Bytes that a member has got from clients.
async fn received(etcd: &Etcd, member: usize) -> f64 {
    let bytes = "etcd_network_client_grpc_received_bytes_total";
    etcd.members()[member].metric(bytes).await.unwrap()
}

/// A client that talks to this member, and may go to the others.
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

async fn a_paused_member_costs_neither_lock_nor_place(pause_leader: bool) {
    let etcd = Etcd::three(EtcdOptions::new()).await.unwrap();
    let leader = etcd.leader().await.unwrap();
    let paused = if pause_leader { leader } else { (leader + 1) % 3 };
    let (holder, waiter) = (client_of(&etcd, paused).await, client_of(&etcd, paused).await);
    let (guard, waiting) = held_and_waited_for(holder, waiter).await;
    // Renewed at 2 s and 4 s at the latest: over another member.
    let lease = Duration::from_secs(6);
    let short = LockClient::new(client_of(&etcd, paused).await);
    let short = short.lock("short").lease(lease).acquire().await.unwrap();
    etcd.members()[paused].pause().unwrap();
    let stopped = SystemEnv.now();
    let next = etcd.leader().await.unwrap();
    assert_eq!(next != leader, pause_leader, "the fault did not happen");
    let renewed = async {
        while SystemEnv.now() + short.remaining() <= stopped + lease {
            assert!(short.is_valid(), "lost");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT, renewed).await.expect("it is renewed");
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(served(waiting).await.token() > token);
    short.release().await.unwrap();
    etcd.members()[paused].resume().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_follower_costs_neither_lock_nor_place() {
    a_paused_member_costs_neither_lock_nor_place(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_leader_costs_neither_lock_nor_place() {
    a_paused_member_costs_neither_lock_nor_place(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_nothing_is_granted_and_with_it_all_goes_on() {
    let mut etcd = Etcd::three(EtcdOptions::new()).await.unwrap();
    let holder = connect_all(&etcd.endpoints(), "1s").await;
    let waiter = connect_all(&etcd.endpoints(), "1s").await;
    let (guard, waiting) = held_and_waited_for(Arc::clone(&holder), waiter).await;
    let client = LockClient::new(Arc::clone(&holder));
    let short = client.lock("short").lease(Duration::from_secs(2)).acquire().await.unwrap();
    for member in 0..2 {
        etcd.members()[member].pause().unwrap();
    }
    // Whose lease ends meanwhile is told by the clock.
    let reason = tokio::time::timeout(WAIT, short.lost()).await.expect("it is told");
    assert!(matches!(reason, LossReason::Unreachable | LossReason::Expired), "{reason:?}");
    let mut other = request();
    other.name = lock_core::LockName::new("other").unwrap();
    let error = holder.try_acquire(&other).await.expect_err("the fault did not happen");
    assert!(error.is_retryable(), "{error}");
    for member in 0..2 {
        etcd.members()[member].resume().unwrap();
    }
    etcd.wait_healthy().await.unwrap();
    assert!(guard.is_valid());
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(served(waiting).await.token() > token);
    holder.abandon(&other).await.unwrap();
    client.lock("short").lease(LEASE).wait(WAIT).acquire().await.unwrap().release().await.unwrap();
    client.lock("other").wait(WAIT).acquire().await.unwrap().release().await.unwrap();
}
