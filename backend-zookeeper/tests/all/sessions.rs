//! Sessions: how many a client has, how often they write, and how they end.

use std::time::Duration;

use lock_core::{Env as _, ErrorKind, LockClient, Renewal, SystemEnv};
use servers::{ZooKeeper, ZooKeeperOptions};

use crate::support::{
    LEASE, WAIT, busy, connect, granted, monitored, pair, plain, release, request, request_for,
    sessions, single, until, zxid,
};

#[tokio::test(flavor = "multi_thread")]
async fn two_lease_lengths_have_a_session_each() {
    let (zookeeper, [one, other]) = pair().await;
    let client = plain(zookeeper.endpoints()[0]).await;
    let shorter = Duration::from_secs(25);
    let requests = [request(), request_for("shorter", shorter)];
    let grants = [granted(&*one, &requests[0]).await, granted(&*one, &requests[1]).await];
    // That of the other client is the third one.
    assert_eq!(sessions(&client).await.len(), 3);
    assert_eq!(grants.each_ref().map(|grant| grant.lease), [LEASE, shorter]);
    let renewals = one.renew(&[&grants[0], &grants[1]], SystemEnv.now()).await;
    assert!(matches!(renewals[..], [Renewal::Renewed { .. }, Renewal::Renewed { .. }]));
    busy(&*other, &request_for("shorter", LEASE)).await;
    // Nobody renews the third one.
    granted(&*one, &request_for("brief", Duration::from_secs(5))).await;
    until("its lease ends", async || {
        let attempt = other.try_acquire(&request_for("brief", LEASE)).await;
        attempt.is_ok_and(|attempt| attempt.granted().is_some())
    })
    .await;
    busy(&*other, &request()).await;
}

/// So that a client cannot use up the connections of its machine.
#[tokio::test(flavor = "multi_thread")]
async fn a_ninth_lease_length_is_refused_although_others_are_unused() {
    let (_zookeeper, [one, _]) = pair().await;
    let lease = |at: u64| Duration::from_millis(20_000 + at);
    let mut grants = Vec::new();
    // Besides that of the longest lease.
    for at in 0..8 {
        grants.push(granted(&*one, &request_for(&format!("{at}"), lease(at))).await);
    }
    let kept = granted(&*one, &request()).await;
    let error = one.try_acquire(&request_for("more", lease(8))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("at most 8"), "{error}");
    release(&*one, &grants[0]).await;
    one.try_acquire(&request_for("more", lease(8))).await.expect_err("the ninth");
    granted(&*one, &request_for("0", lease(0))).await;
    let renewals = one.renew(&[&kept], SystemEnv.now()).await;
    assert!(matches!(renewals[..], [Renewal::Renewed { .. }]), "{renewals:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_free_connections_is_told_so() {
    let options = ZooKeeperOptions::new().line("maxClientCnxns=1");
    let zookeeper = ZooKeeper::single(options).await.unwrap();
    let one = connect(&zookeeper.endpoints(), "20s").await;
    let url = format!("zookeeper://{}?tick=200ms&timeout=5s", zookeeper.endpoints()[0]);
    let error = backend_zookeeper::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // The end of a client gives its connection back.
    one.close().await;
    until("a free connection", async || backend_zookeeper::connect(&url).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_the_servers_do_not_give_is_refused_with_the_range() {
    let options = ZooKeeperOptions::new().line("maxSessionTimeout=41000");
    let zookeeper = ZooKeeper::single(options).await.unwrap();
    let one = connect(&zookeeper.endpoints(), "5s").await;
    let longer = lock_core::Init::new().with_longest_lease(Duration::from_secs(60));
    let error = one.init(&longer).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("at most 30s 750ms"), "{error}");
    let error = one.try_acquire(&request_for("job", Duration::from_millis(900))).await.unwrap_err();
    assert!(error.to_string().contains("between 1s and 30s"), "{error}");
}

/// The default of a new store needs a longer session than these servers give.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_names_no_longest_lease_takes_that_of_the_store() {
    let options = ZooKeeperOptions::new().line("maxSessionTimeout=20000");
    let zookeeper = ZooKeeper::single(options).await.unwrap();
    let url = format!("zookeeper://{}?tick=200ms&timeout=20s", zookeeper.endpoints()[0]);
    let error = backend_zookeeper::connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("at most 15s"), "{error}");
    let first = backend_zookeeper::connect(&format!("{url}&longest_lease=15s")).await.unwrap();
    let second = backend_zookeeper::connect(&url).await.unwrap();
    assert_eq!(second.guarantees().longest_lease, Duration::from_secs(15));
    assert_eq!(first.identity().await.unwrap(), second.identity().await.unwrap());
    granted(&*second, &request_for("job", Duration::from_secs(15))).await;
}

/// A close ends the sessions, and with them all nodes of the client.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_client_leaves_no_session() {
    let (zookeeper, [one, other]) = pair().await;
    other.close().await;
    let grant = granted(&*one, &request()).await;
    release(&*one, &grant).await;
    one.close().await;
    assert_eq!(monitored(&zookeeper, "zk_ephemerals_count").await, 0);
    // The question has a connection, too.
    until("no connection", async || monitored(&zookeeper, "zk_num_alive_connections").await <= 1)
        .await;
    let error = one.try_acquire(&request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

/// All locks of a session are renewed by one write in about a third of the lease.
#[tokio::test(flavor = "multi_thread")]
async fn many_held_locks_cost_no_more_writes_than_one() {
    const LOCKS: usize = 500;
    let zookeeper = single().await;
    let client = LockClient::new(connect(&zookeeper.endpoints(), "20s").await);
    let lease = LEASE;
    let mut guards = Vec::new();
    for at in 0..LOCKS {
        guards.push(client.lock(format!("job {at}")).lease(lease).acquire().await.unwrap());
    }
    // Each guard is renewed at least once.
    let (before, since) = (zxid(&zookeeper).await, SystemEnv.now());
    for guard in &guards {
        until("a renewal", async || {
            assert!(guard.is_valid(), "lost");
            SystemEnv.now() + guard.remaining() > since + lease
        })
        .await;
    }
    let thirds = SystemEnv.now().since(since).as_secs() / (lease / 3).as_secs();
    let writes = zxid(&zookeeper).await - before;
    // Locks that were not acquired together make up to twice as many writes at first.
    assert!(writes <= 2 * (thirds + 2), "{writes} writes in {thirds} thirds of a lease");
    drop(guards);
    tokio::time::timeout(WAIT * 3, client.close()).await.expect("it closes");
}
