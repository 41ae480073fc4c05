//! A snapshot is restored: ZooKeeper has lost locks, and shows nothing of it.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Env as _, Grant, Init, LockName, Quarantined, Renewal, Request, SystemEnv,
};
use servers::{Data, Server as _, ZooKeeper, ZooKeeperOptions};

use crate::support::{
    LEASE, WAIT, answer, connect, end, granted, is_over, name, plain, release, request,
    request_for, sessions, until,
};

/// A store grants nothing for this long. So much is left to ask it on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);

async fn start(is_ensemble: bool) -> ZooKeeper {
    let options = ZooKeeperOptions::new();
    let zookeeper = match is_ensemble {
        true => ZooKeeper::three(options).await,
        false => ZooKeeper::single(options).await,
    };
    zookeeper.unwrap()
}

/// A client of a store with another longest lease than the default.
async fn first_client(zookeeper: &ZooKeeper) -> Arc<dyn Backend> {
    let client = connect(&zookeeper.endpoints(), "20s").await;
    let first = Init::new().with_first_use(true).with_longest_lease(LONGEST);
    client.init(&first).await.unwrap();
    client
}

fn asked() -> Request {
    request_for("job", LONGEST)
}

async fn held_back(backend: &dyn Backend, request: &Request) -> Quarantined {
    match answer(backend, request).await {
        Attempt::Quarantined(held_back) => held_back,
        attempt => panic!("two holders: {attempt:?}"),
    }
}

/// The store grants nothing for as long as the holder of the lost lock believes in it.
fn outlasts(held_back: &Quarantined, lost: &Grant) {
    let until = SystemEnv.now() + held_back.remaining;
    assert!(until >= end(lost), "{held_back:?} ends before {lost:?}");
}

/// The operator reports it before clients go on: so also where one server is alone, which shows
/// nothing at all to new clients.
#[tokio::test(flavor = "multi_thread")]
async fn a_reported_restore_is_waited_out() {
    let mut zookeeper = start(false).await;
    let holder = first_client(&zookeeper).await;
    zookeeper.save_data().unwrap();
    let lost = granted(&*holder, &asked()).await;
    zookeeper.restore_data().await.unwrap();
    let operator = connect(&zookeeper.endpoints(), "20s").await;
    let settings = operator.init(&Init::new().with_restored(true)).await.unwrap();
    assert!(settings.grants_in > LONGEST / 2, "{settings:?}");
    let other = connect(&zookeeper.endpoints(), "20s").await;
    let why = held_back(&*other, &asked()).await.why;
    assert!(why.contains("restore"), "{why}");
    let next = loop {
        if let Attempt::Granted(grant) = answer(&*other, &asked()).await {
            break grant;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    is_over(&lost);
    assert!(next.token > lost.token, "{} after {}", next.token, lost.token);
}

/// Nobody reports it. New clients see an epoch that nobody has opened. The session of the holder is
/// in the copy, and its zxids are below those of the new epoch, so ZooKeeper lets it go on.
#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_that_went_back_waits_although_nobody_reports_it() {
    let mut zookeeper = start(true).await;
    let holder = first_client(&zookeeper).await;
    let warm = granted(&*holder, &asked()).await;
    release(&*holder, &warm).await;
    let kept = granted(&*holder, &request_for("other", LONGEST)).await;
    zookeeper.save_data().unwrap();
    // The store assumes that a copy is older than a lease. What counts is that the session of the
    // lock has written since.
    let written = holder.renew(&[&kept], kept.from + LONGEST / 2).await;
    assert!(matches!(written[..], [Renewal::Renewed { .. }]), "{written:?}");
    let lost = granted(&*holder, &asked()).await;
    zookeeper.restore_data().await.unwrap();
    let other = connect(&zookeeper.endpoints(), "20s").await;
    let first = held_back(&*other, &asked()).await;
    assert!(first.why.contains("elected"), "{first:?}");
    outlasts(&first, &lost);
    // The holder does not open it either, and learns of its loss.
    outlasts(&held_back(&*holder, &asked()).await, &lost);
    let renewed = async {
        while let Renewal::Unknown(error) =
            holder.renew(&[&lost], lost.from).await.pop().expect("an answer")
        {
            assert!(error.is_retryable(), "{error}");
        }
    };
    tokio::time::timeout(WAIT * 3, renewed).await.expect("an answer");
    outlasts(&held_back(&*other, &asked()).await, &lost);
}

/// A client that has lived through the election knows that nothing was lost. So a new client waits
/// only until the other one has said so.
#[tokio::test(flavor = "multi_thread")]
async fn an_election_without_a_loss_is_not_waited_out() {
    let mut zookeeper = start(true).await;
    let old = connect(&zookeeper.endpoints(), "20s").await;
    let grant = granted(&*old, &request_for("other", LEASE)).await;
    let leader = zookeeper.leader().await.unwrap();
    zookeeper.member_mut(leader).kill().unwrap();
    assert_ne!(zookeeper.leader().await.unwrap(), leader, "the fault did not happen");
    let new = connect(&zookeeper.endpoints(), "20s").await;
    // It must open the epoch less than a lease, which is 30 s, after its last write.
    let held_back = held_back(&*new, &request()).await;
    assert!(held_back.remaining > WAIT, "{held_back:?}");
    until("a renewal", async || {
        let sent = grant.from + LEASE / 2;
        matches!(old.renew(&[&grant], sent).await[..], [Renewal::Renewed { .. }])
    })
    .await;
    granted(&*new, &request()).await;
}

/// The directory of the lock was changed before the election for the last time. The session of the
/// waiter has written after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_meets_the_epoch_that_its_session_knows() {
    let mut zookeeper = start(true).await;
    let endpoints = zookeeper.endpoints();
    let leader = zookeeper.leader().await.unwrap();
    let client = plain(endpoints[(leader + 1) % 3]).await;
    let open_epoch = async || {
        let mut read = client.get_data("/leasehold/%leasehold/settings").await;
        while read.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
            read = client.get_data("/leasehold/%leasehold/settings").await;
        }
        let settings: serde_json::Value = serde_json::from_slice(&read.unwrap().0).unwrap();
        settings["epoch"].as_i64().unwrap()
    };
    let (holder, waiter) = (connect(&endpoints, "20s").await, connect(&endpoints, "20s").await);
    let grant = granted(&*holder, &request()).await;
    let waiting = request();
    let _place = waiter.enqueue(&waiting).await.unwrap();
    release(&*holder, &grant).await;
    let before = open_epoch().await;
    zookeeper.member_mut(leader).kill().unwrap();
    assert_ne!(zookeeper.leader().await.unwrap(), leader, "the fault did not happen");
    until("a write", async || waiter.read_record(&name()).await.is_ok()).await;
    assert_eq!(open_epoch().await, before);
    assert!(granted(&*waiter, &waiting).await.token > grant.token);
    // The server of this client may be behind.
    until("the epoch is open", async || open_epoch().await > before).await;
}

/// A session finds another version of its node. Its guard does not know yet, so its lock stays held
/// until the guard would end, also at other clients.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_outlives_the_session_that_finds_an_older_state() {
    let zookeeper = start(false).await;
    let client = plain(zookeeper.endpoints()[0]).await;
    let holder = connect(&zookeeper.endpoints(), "20s").await;
    let lost = granted(&*holder, &request()).await;
    // Its session must live on while this machine stalls for 5 s.
    let brief = granted(&*holder, &request_for("brief", Duration::from_secs(10))).await;
    for node in sessions(&client).await {
        let path = format!("/leasehold/%leasehold/sessions/{node}");
        client.set_data(&path, b"", None).await.unwrap();
    }
    for grant in [&lost, &brief] {
        let renewal = holder.renew(&[grant], grant.from + grant.lease / 2).await.pop().unwrap();
        assert!(!matches!(renewal, Renewal::Renewed { .. }), "the fault did not happen");
    }
    // Another session of the same client: its requests come after the end of the first one.
    holder.identity().await.unwrap();
    let other = connect(&zookeeper.endpoints(), "20s").await;
    let holder_of = async |name: &str| {
        let name = LockName::new(name).unwrap();
        other.inspect(&name).await.unwrap().and_then(|state| state.holder)
    };
    assert!(holder_of("job").await.is_some(), "it is free before its guard ends");
    until("the end of the brief one", async || holder_of("brief").await.is_none()).await;
}

/// A client that knows the store finds it empty. It opens it after the longest lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_finds_all_data_lost_waits() {
    let mut zookeeper = start(false).await;
    // The server refuses sessions that have seen later data, until they end.
    let options = "tick=200ms&timeout=20s&longest_lease=6s";
    let url = format!("zookeeper://{}?{options}", zookeeper.endpoints()[0]);
    let knows = backend_zookeeper::connect(&url).await.unwrap();
    let asked = || request_for("job", Duration::from_secs(6));
    let lost = granted(&*knows, &asked()).await;
    zookeeper.member_mut(0).restart(Data::Lose).await.unwrap();
    let why = held_back(&*knows, &asked()).await.why;
    assert!(why.contains("lost"), "{why}");
    let first = Init::new().with_first_use(true);
    knows.init(&first).await.unwrap();
    assert!(granted(&*knows, &asked()).await.token > lost.token);
}
