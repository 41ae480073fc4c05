//! The network fails while a client asks for a lock.

use std::time::Duration;

use lock_core::{Attempt, Backend, ErrorKind, Renewal};
use servers::{Mode, Proxy, Server as _};
use zookeeper_client::Client;

use crate::support::{
    LEASE, WAIT, busy, connect, eventually_granted, granted, is_over, name, pair, release, request,
    request_for, single, until, zxid,
};

/// The attempt arrives and its answer is lost: the outcome is unknown, and the clean-up leaves
/// nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_leaves_no_lock() {
    let zookeeper = single().await;
    let address = zookeeper.endpoints()[0];
    let proxy = Proxy::start(address).await.unwrap();
    let direct = connect(&[address], "10s").await;
    let behind = connect(&[proxy.address()], "3s").await;
    // The directory of the name is there.
    let first = granted(&*direct, &request()).await;
    release(&*direct, &first).await;
    proxy.set(Mode::HalfCut).await.unwrap();
    let lost = request();
    let error = behind.try_acquire(&lost).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(proxy.counters().to_client.swallowed > 0, "the fault did not happen");
    busy(&*direct, &request()).await;
    proxy.set(Mode::Pass).await.unwrap();
    abandoned(&*behind, &lost).await;
    granted(&*direct, &request()).await;
}

/// A write of a session is carried out, and its answer is lost. The next one finds a version that
/// no answer has named, and the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_a_renewal_ends_no_session() {
    let zookeeper = single().await;
    let proxy = Proxy::start(zookeeper.endpoints()[0]).await.unwrap();
    let behind = connect(&[proxy.address()], "3s").await;
    let lease = LEASE;
    let grant = granted(&*behind, &request()).await;
    proxy.set(Mode::HalfCut).await.unwrap();
    let answer = behind.renew(&[&grant], grant.from + lease / 2).await.pop().unwrap();
    assert!(matches!(answer, Renewal::Unknown(_)), "{answer:?}");
    assert!(proxy.counters().to_client.swallowed > 0, "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    until("a renewal", async || {
        let renewal = behind.renew(&[&grant], grant.from + lease / 2).await.pop().unwrap();
        assert!(!matches!(renewal, Renewal::Lost(_)), "{renewal:?}");
        matches!(renewal, Renewal::Renewed { .. })
    })
    .await;
}

/// The caller of an `inspect` goes away before the answer to its write has come. The next write
/// finds a version that no answer has named, and the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_ends_no_session() {
    let zookeeper = single().await;
    let proxy = Proxy::start(zookeeper.endpoints()[0]).await.unwrap();
    let behind = connect(&[proxy.address()], "10s").await;
    let grant = granted(&*behind, &request()).await;
    proxy.set(Mode::HalfCut).await.unwrap();
    let before = zxid(&zookeeper).await;
    let name = name();
    tokio::select! {
        answer = behind.inspect(&name) => panic!("an answer: {answer:?}"),
        () = until("its write", async || zxid(&zookeeper).await > before) => {}
    }
    proxy.set(Mode::Pass).await.unwrap();
    until("a renewal", async || {
        let renewal = behind.renew(&[&grant], grant.from + LEASE / 2).await.pop().unwrap();
        assert!(!matches!(renewal, Renewal::Lost(_)), "{renewal:?}");
        matches!(renewal, Renewal::Renewed { .. })
    })
    .await;
    let attempt = behind.try_acquire(&request_for("other", LEASE)).await.unwrap();
    assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
}

/// The server answers the create and not the read that follows it. The attempt leaves no entry.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_fails_leaves_no_entry() {
    let (zookeeper, [one, other]) = pair().await;
    let client = Client::connect(&zookeeper.endpoints()[0].to_string()).await.unwrap();
    let first = granted(&*one, &request()).await;
    release(&*one, &first).await;
    let path = "/leasehold/%leasehold/settings";
    let (settings, _) = client.get_data(path).await.unwrap();
    client.set_data(path, b"unreadable", None).await.unwrap();
    let error = one.try_acquire(&request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    client.set_data(path, &settings, None).await.unwrap();
    // Its client lives, and with it the session.
    until("the lock is free", async || {
        other.try_acquire(&request()).await.is_ok_and(|attempt| attempt.granted().is_some())
    })
    .await;
    one.inspect(&name()).await.unwrap();
}

/// The answer to the create is lost, and nobody abandons the owner. The entry ends with its lease.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_no_answer_has_named_ends_with_its_lease() {
    let zookeeper = single().await;
    let address = zookeeper.endpoints()[0];
    let proxy = Proxy::start(address).await.unwrap();
    let direct = connect(&[address], "10s").await;
    let behind = connect(&[proxy.address()], "2s").await;
    let brief = Duration::from_secs(5);
    let first = granted(&*behind, &request_for("job", brief)).await;
    release(&*behind, &first).await;
    proxy.set(Mode::HalfCut).await.unwrap();
    let before = zxid(&zookeeper).await;
    let error = behind.try_acquire(&request_for("job", brief)).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(zxid(&zookeeper).await > before, "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    // The session goes on: it would keep the entry.
    eventually_granted(&*direct).await;
    behind.inspect(&name()).await.unwrap();
}

async fn abandoned(backend: &dyn Backend, request: &lock_core::Request) {
    let abandoning = async {
        while let Err(error) = backend.abandon(request).await {
            assert!(error.is_retryable(), "{error}");
        }
    };
    tokio::time::timeout(WAIT, abandoning).await.expect("it is abandoned");
}

/// The session moves to another connection while the request to make an entry is still under way.
/// The server has closed the old connection, so it never reads the request.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_after_its_session_has_moved_takes_nothing() {
    let zookeeper = single().await;
    let address = zookeeper.endpoints()[0];
    let direct = connect(&[address], "10s").await;
    let (slow, quick) =
        (Proxy::start(address).await.unwrap(), Proxy::start(address).await.unwrap());
    quick.set(Mode::Cut).await.unwrap();
    let moving = connect(&[slow.address(), quick.address()], "3s").await;
    // Its session for this lease is on the slow way, and moves when a part of it has passed.
    let lease = Duration::from_secs(5);
    let warm = granted(&*moving, &request_for("job", lease)).await;
    release(&*moving, &warm).await;
    slow.set(Mode::Hold).await.unwrap();
    quick.set(Mode::Pass).await.unwrap();
    let late = request_for("job", lease);
    let error = moving.try_acquire(&late).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    quick.until("the session moves", WAIT, |now| now.open > 0).await.unwrap();
    abandoned(&*moving, &late).await;
    let next = granted(&*direct, &request()).await;
    let before = slow.counters().to_server;
    assert!(before.waiting > 0, "the fault did not happen");
    slow.set(Mode::Pass).await.unwrap();
    slow.until("the late request", WAIT, |now| now.to_server.passed > before.passed).await.unwrap();
    let state = direct.inspect(&name()).await.unwrap().unwrap();
    assert_eq!(state.token, next.token);
    assert_eq!(state.waiting, Some(0), "the late request has made an entry");
    release(&*direct, &next).await;
    granted(&*direct, &request()).await;
}

/// A paused server answers nobody. The holder's validity ends, and the next one comes after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_the_server_gives_no_second_holder() {
    let (mut zookeeper, [one, other]) = pair().await;
    let short = Duration::from_secs(2);
    let grant = granted(&*one, &request_for("job", short)).await;
    zookeeper.member_mut(0).pause().unwrap();
    let error = one.renew(&[&grant], grant.from + short / 2).await.pop().unwrap();
    assert!(matches!(error, Renewal::Unknown(_)), "{error:?}");
    zookeeper.member_mut(0).resume().unwrap();
    let next = eventually_granted(&*other).await;
    is_over(&grant);
    assert!(next.token > grant.token);
}

/// Sessions and entries survive a crash of a single server.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_server_loses_no_lock() {
    let (mut zookeeper, [one, other]) = pair().await;
    let grant = granted(&*one, &request()).await;
    let before = zookeeper.members()[0].process().pid().unwrap();
    zookeeper.crash().await.unwrap();
    assert_ne!(zookeeper.members()[0].process().pid().unwrap(), before);
    let answer = loop {
        match other.try_acquire(&request()).await {
            Ok(answer) => break answer,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    };
    assert!(matches!(answer, Attempt::Busy(_)), "two holders: {answer:?}");
    release(&*one, &grant).await;
    assert!(eventually_granted(&*other).await.token > grant.token);
}
