//! The network, a stream or etcd fails while a lock is held or waited for; a hostile server.

use std::{
    future::poll_fn,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lock_core::{Env as _, Error, ErrorKind, Grant, LockClient, Renewal, SystemEnv};
use servers::{Mode, Server as _};
use tokio::net::TcpListener;

use crate::support::{
    WAIT, connect, entries, granted, hands_over, held_and_waited_for, proxied, renewed, request,
    request_for, single, streamed, until,
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

/// A follower forwards keepalives to the leader one by one. With many locks the last answer takes
/// seconds, although the stream works all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_keepalive_stream_is_not_given_up() {
    let (_etcd, streams, [_, backend]) = streamed("60s").await;
    let mut held: Vec<Grant> = Vec::new();
    for number in 0..20 {
        held.push(granted(&*backend, &request_for(&format!("job {number}"))).await);
    }
    let held: Vec<&Grant> = held.iter().collect();
    // Together they take longer than a stream may be silent, each far less.
    streams.slow("LeaseKeepAlive", Duration::from_millis(100));
    let began = SystemEnv.now();
    let renewed = backend.renew(&held, began).await;
    let took = SystemEnv.now().since(began);
    let other = renewed.iter().find(|it| !matches!(it, Renewal::Renewed { .. }));
    assert!(other.is_none(), "{other:?} after {took:?}");
    assert!(
        took > Duration::from_secs(1),
        "{} locks were renewed in {took:?}: too few",
        held.len()
    );
    assert_eq!(streams.opened("LeaseKeepAlive"), 1, "a busy stream was given up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_keepalive_stream_is_detected_and_no_lock_is_lost() {
    let (_etcd, streams, [_, backend]) = streamed("5s").await;
    let client = LockClient::new(backend);
    let lease = Duration::from_secs(6);
    let guard = client.lock("job").lease(lease).acquire().await.unwrap();
    until("the first renewal", async || streams.opened("LeaseKeepAlive") > 0).await;
    streams.stick("LeaseKeepAlive");
    // Only over another stream can it be renewed.
    renewed(&guard, SystemEnv.now(), lease).await;
    assert!(streams.swallowed("LeaseKeepAlive") > 0, "the fault did not happen");
    assert!(streams.opened("LeaseKeepAlive") > 1);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_watch_delays_nobody_for_long_and_is_replaced() {
    let (_etcd, streams, [holder, waiter]) = streamed("5s").await;
    let (guard, waiting) = held_and_waited_for(holder, waiter.clone()).await;
    until("a watch", async || streams.opened("Watch") > 0).await;
    // It is silent, but it answers the progress request: a healthy watch stays. An unanswered one
    // is given up after 6 s.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(streams.opened("Watch"), 1, "a healthy watch was given up");
    streams.stick("Watch");
    // The waiter notices the release by polling.
    let next = hands_over(guard, waiting).await;
    assert!(streams.swallowed("Watch") > 0, "the fault did not happen");

    // A new waiter makes the client open another watch.
    let waiting = tokio::spawn(async move {
        LockClient::new(waiter).lock("job").wait(WAIT * 3).acquire().await.unwrap()
    });
    until("another watch", async || streams.opened("Watch") > 1).await;
    drop(hands_over(next, waiting).await);
}

const MIB: u64 = 1024 * 1024;

/// Answers every request with `head` and then endless zeros, and counts the bytes.
async fn start(head: [u8; 5]) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, sent) = (listener.local_addr().unwrap(), Arc::<AtomicU64>::default());
    let count = Arc::clone(&sent);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((_request, mut respond))) = connection.accept().await {
                    let answer =
                        http::Response::builder().header("content-type", "application/grpc");
                    let Ok(answer) = respond.send_response(answer.body(()).unwrap(), false) else {
                        continue;
                    };
                    tokio::spawn(zeros(answer, head, Arc::clone(&count)));
                }
            });
        }
    });
    (address, sent)
}

async fn zeros(mut answer: h2::SendStream<bytes::Bytes>, head: [u8; 5], count: Arc<AtomicU64>) {
    let mut next = bytes::Bytes::copy_from_slice(&head);
    loop {
        answer.reserve_capacity(next.len());
        while answer.capacity() < next.len() {
            let Some(Ok(_)) = poll_fn(|cx| answer.poll_capacity(cx)).await else { return };
        }
        count.fetch_add(next.len() as u64, Ordering::Relaxed);
        if answer.send_data(next, false).is_err() {
            return;
        }
        next = bytes::Bytes::from_static(&[0; 10_000]);
    }
}

async fn refused(address: SocketAddr) -> Error {
    backend_etcd::connect(&format!("etcd://{address}?timeout=2s")).await.map(drop).unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_above_the_limit_is_refused_by_its_announced_length() {
    for length in [4 * MIB as u32 + 1, u32::MAX] {
        let [a, b, c, d] = length.to_be_bytes();
        let (address, sent) = start([0, a, b, c, d]).await;
        let error = refused(address).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        // No more than the window that HTTP/2 opens before anything is read.
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent < 8 * MIB, "the client took {sent} bytes");
    }
}

/// Zeros are empty messages. The client reads and drops each of them until its time limit.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_an_end_is_given_up_in_time() {
    let (address, sent) = start([0; 5]).await;
    let error = refused(address).await;
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(sent.load(Ordering::Relaxed) > MIB, "it had an end");
}
