//! The network fails while a client asks for a lock.

use std::time::Duration;

use lock_core::{Backend, ErrorKind, Renewal, Request};
use servers::{Counters, Mode, Proxy, Server as _};

use crate::support::{
    LEASE, WAIT, busy, connect, entries, eventually_granted, granted, is_over, name, pair, plain,
    release, request, request_for, sessions, single, until, zxid,
};

/// A call whose request arrives. Then its connection ends without the answer.
async fn without_answer<T>(
    proxy: &Proxy,
    call: impl Future<Output = T>,
    has_arrived: impl AsyncFnMut() -> bool,
) -> T {
    proxy.set(Mode::HalfCut).await.unwrap();
    let cut = async {
        until("the request arrives", has_arrived).await;
        proxy.set(Mode::Reset).await.unwrap();
        proxy.set(Mode::Pass).await.unwrap();
    };
    tokio::join!(call, cut).0
}

/// The attempt arrives and its answer is lost: the outcome is unknown, and the clean-up leaves
/// nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_leaves_no_lock() {
    let zookeeper = single().await;
    let address = zookeeper.endpoints()[0];
    let (client, proxy) = (plain(address).await, Proxy::start(address).await.unwrap());
    let direct = connect(&[address], "20s").await;
    let behind = connect(&[proxy.address()], "20s").await;
    // The directory of the name is there.
    let first = granted(&*direct, &request()).await;
    release(&*direct, &first).await;
    let lost = request();
    let has_arrived = async || !entries(&client).await.is_empty();
    let error = without_answer(&proxy, behind.try_acquire(&lost), has_arrived).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    busy(&*direct, &request()).await;
    abandoned(&*behind, &lost).await;
    granted(&*direct, &request()).await;
}

/// A write of a session is carried out, and its answer is lost. The next one finds a version that
/// no answer has named, and the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_a_renewal_ends_no_session() {
    let zookeeper = single().await;
    let proxy = Proxy::start(zookeeper.endpoints()[0]).await.unwrap();
    let behind = connect(&[proxy.address()], "20s").await;
    let grant = granted(&*behind, &request()).await;
    let (before, grants) = (zxid(&zookeeper).await, [&grant]);
    let renewal = behind.renew(&grants, grant.from + LEASE / 2);
    let has_arrived = async || zxid(&zookeeper).await > before;
    let answer = without_answer(&proxy, renewal, has_arrived).await.pop().unwrap();
    assert!(matches!(answer, Renewal::Unknown(_)), "{answer:?}");
    until("a renewal", async || {
        let renewal = behind.renew(&[&grant], grant.from + LEASE / 2).await.pop().unwrap();
        assert!(!matches!(renewal, Renewal::Lost(_)), "the session has ended: {renewal:?}");
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
    let behind = connect(&[proxy.address()], "20s").await;
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
        assert!(!matches!(renewal, Renewal::Lost(_)), "the session has ended: {renewal:?}");
        matches!(renewal, Renewal::Renewed { .. })
    })
    .await;
    granted(&*behind, &request_for("other", LEASE)).await;
}

/// The server answers the create and not the read that follows it. The attempt leaves no entry.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_fails_leaves_no_entry() {
    let (zookeeper, [one, other]) = pair().await;
    let client = plain(zookeeper.endpoints()[0]).await;
    let first = granted(&*one, &request()).await;
    release(&*one, &first).await;
    let (path, before) = ("/leasehold/%leasehold/settings", sessions(&client).await);
    let (settings, _) = client.get_data(path).await.unwrap();
    client.set_data(path, b"unreadable", None).await.unwrap();
    let error = one.try_acquire(&request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    client.set_data(path, &settings, None).await.unwrap();
    eventually_granted(&*other).await;
    // It would keep the entry.
    assert_eq!(sessions(&client).await, before, "a session has ended");
}

/// The answer to the create is lost, and nobody abandons the owner. The entry ends with its lease.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_no_answer_has_named_ends_with_its_lease() {
    let zookeeper = single().await;
    let address = zookeeper.endpoints()[0];
    let (client, proxy) = (plain(address).await, Proxy::start(address).await.unwrap());
    let direct = connect(&[address], "20s").await;
    let behind = connect(&[proxy.address()], "20s").await;
    // The session must live on while this machine stalls for 5 s.
    let brief = Duration::from_secs(10);
    let first = granted(&*behind, &request_for("job", brief)).await;
    release(&*behind, &first).await;
    let before = sessions(&client).await;
    let lost = request_for("job", brief);
    let has_arrived = async || !entries(&client).await.is_empty();
    let error = without_answer(&proxy, behind.try_acquire(&lost), has_arrived).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    eventually_granted(&*direct).await;
    // It would keep the entry.
    assert_eq!(sessions(&client).await, before, "a session has ended");
}

async fn abandoned(backend: &dyn Backend, request: &Request) {
    let abandoning = async {
        while let Err(error) = backend.abandon(request).await {
            assert!(error.is_retryable(), "{error}");
        }
    };
    tokio::time::timeout(WAIT * 3, abandoning).await.expect("it is abandoned");
}

/// The session moves to another connection while the request to make an entry is still under way.
/// The server has closed the old connection, so it never reads the request.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_after_its_session_has_moved_takes_nothing() {
    let zookeeper = single().await;
    let address = zookeeper.endpoints()[0];
    let (client, direct) = (plain(address).await, connect(&[address], "20s").await);
    let slow = Proxy::start(address).await.unwrap();
    // When this one ends, what it has sent is still in the slow one.
    let front = Proxy::start(slow.address()).await.unwrap();
    let quick = Proxy::start(address).await.unwrap();
    quick.set(Mode::Cut).await.unwrap();
    let moving = connect(&[front.address(), quick.address()], "20s").await;
    let warm = granted(&*moving, &request()).await;
    release(&*moving, &warm).await;
    // A ping is much shorter.
    let has_request = |now: &Counters| now.to_server.waiting > 100;

    // Without a move, the request takes the lock when it arrives.
    let kept = request();
    slow.set(Mode::Hold).await.unwrap();
    tokio::select! {
        answer = moving.try_acquire(&kept) => panic!("an answer: {answer:?}"),
        held = slow.until("a held request", WAIT, has_request) => held.map(drop).unwrap(),
    }
    slow.set(Mode::Pass).await.unwrap();
    until("its entry", async || !entries(&client).await.is_empty()).await;
    abandoned(&*moving, &kept).await;
    assert!(entries(&client).await.is_empty());

    let (late, before) = (request(), sessions(&client).await);
    slow.set(Mode::Hold).await.unwrap();
    let (error, ()) = tokio::join!(moving.try_acquire(&late), async {
        slow.until("a held request", WAIT, has_request).await.unwrap();
        quick.set(Mode::Pass).await.unwrap();
        front.set(Mode::Cut).await.unwrap();
    });
    let error = error.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    abandoned(&*moving, &late).await;
    assert!(quick.counters().accepted > 0, "it has no other way");
    assert_eq!(sessions(&client).await, before, "it is another session");
    let next = granted(&*direct, &request()).await;
    assert!(has_request(&slow.counters()), "the fault did not happen");
    slow.set(Mode::Pass).await.unwrap();
    slow.until("the end of the old connection", WAIT, |now| now.open == 0).await.unwrap();
    assert_eq!(entries(&client).await.len(), 1, "the late request has made an entry");
    release(&*direct, &next).await;
    granted(&*direct, &request()).await;
}

/// A paused server answers nobody. The holder hears nothing for a while, and nobody gets its lock
/// before it has stopped to believe in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_the_server_gives_no_second_holder() {
    let mut zookeeper = single().await;
    let servers = zookeeper.endpoints();
    // The question gives up after 5 s, which leaves 15 s of the lease for a busy machine.
    let (one, other) = (connect(&servers, "5s").await, connect(&servers, "20s").await);
    let grant = granted(&*one, &request_for("job", Duration::from_secs(20))).await;
    zookeeper.member_mut(0).pause().unwrap();
    let error = one.inspect(&name()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    zookeeper.member_mut(0).resume().unwrap();
    busy(&*other, &request()).await;
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
    let seen = busy(&*other, &request()).await;
    assert_eq!(seen.token, grant.token);
    release(&*one, &grant).await;
    assert!(eventually_granted(&*other).await.token > grant.token);
}
