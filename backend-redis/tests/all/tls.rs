//! TLS, and separate logins, to sentinels, to the servers that they name, and to a cluster.

use std::{net::SocketAddr, time::Duration};

use lock_core::{ErrorKind, LockClient};
use servers::{
    Certificates, ClientCertificates, Proxy, Redis, RedisCluster, RedisOptions, Sentinels,
    Server as _, wait::until,
};

use crate::support::{connect, direct, first_use, name, quarantined, request};

const SOON: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(20);

/// A user besides the default one.
const APP: &str = "user app on >hunter2 ~leasehold:* &leasehold:* +@all";

fn hosts(addresses: &[SocketAddr]) -> String {
    let hosts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    hosts.join(",")
}

fn trust(files: &Certificates) -> String {
    let [ca, cert, key] = [&files.ca, &files.client_cert, &files.client_key].map(|p| p.display());
    format!("ca={ca}&cert={cert}&key={key}")
}

/// All connections of the user to this server are encrypted.
async fn only_encrypted(server: &Redis) {
    let list = server.cli(&["CLIENT", "LIST"]).await.unwrap();
    let ours: Vec<_> = list.lines().filter(|line| line.contains("user=app")).collect();
    assert!(!ours.is_empty(), "{list}");
    let port = format!("laddr={} ", server.tls_address().unwrap());
    assert!(ours.iter().all(|line| line.contains(&port)), "{port}: {ours:?}");
}

#[tokio::test]
async fn through_sentinels_all_is_encrypted_and_stays_so_over_a_failover() {
    let options = RedisOptions::new().tls(ClientCertificates::Required).line(APP);
    let down_after = Duration::from_secs(3);
    let mut group = Sentinels::start_patient(2, options, down_after).await.unwrap();
    let (secured, open) = (group.tls_endpoints(), group.endpoints());
    assert_eq!(secured.len(), 3);
    for sentinel in &open {
        let watcher = "ACL SETUSER watcher on >hunter3 -@all +hello +auth \
                       +sentinel|get-master-addr-by-name +sentinel|master";
        let mut sentinel = direct::talk_to(*sentinel).await;
        direct::said(&mut sentinel, &watcher.split_whitespace().collect::<Vec<_>>()).await;
    }
    let trust = trust(group.certificates().unwrap());
    let logins = "sentinel_user=watcher&sentinel_password=hunter3";
    let at = |scheme: &str, login: &str, hosts: &str, options: &str| {
        let master = Sentinels::MASTER;
        format!("{scheme}+sentinel://{login}@{hosts}/{master}?timeout=3s&{options}")
    };
    let (app, secured, open) = ("app:hunter2", hosts(&secured), hosts(&open));
    let url = at("rediss", app, &secured, &format!("{logins}&{trust}"));
    let store = connect(&url).await;
    first_use(&*store).await;
    let old = group.master().await.unwrap();
    only_encrypted(&group.servers()[old]).await;
    let guard = LockClient::new(store.clone()).lock(name("a")).lease(LEASE).acquire().await;
    let guard = guard.unwrap();

    for (scheme, login, hosts, options, kind) in [
        // Each of the two logins is used where it belongs.
        ("rediss", "app:wrong", &secured, format!("{logins}&{trust}"), ErrorKind::Auth),
        ("rediss", app, &secured, format!("{logins}x&{trust}"), ErrorKind::Auth),
        // Neither side knows the other's certificate.
        ("rediss", app, &secured, logins.to_owned(), ErrorKind::Unavailable),
        // A sentinel with TLS names a master with TLS.
        ("redis", app, &open, logins.to_owned(), ErrorKind::Unavailable),
        ("redis", app, &open, format!("{logins}&{trust}"), ErrorKind::InvalidInput),
    ] {
        let url = at(scheme, login, hosts, &options);
        let error = backend_redis::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
    }

    group.server_mut(old).kill().unwrap();
    let new = group.failed_over(old).await.unwrap();
    let told = quarantined(&*store).await;
    assert!(told.why.contains("changed its role"), "{told:?}");
    only_encrypted(&group.servers()[new]).await;
    assert!(guard.is_valid());
}

#[tokio::test]
async fn in_a_cluster_all_is_encrypted_also_where_a_slot_moved_or_a_master_died() {
    let options = RedisOptions::new().tls(ClientCertificates::Required).line(APP);
    let options = options.line("cluster-node-timeout 1500");
    let mut cluster = RedisCluster::start(3, 1, options).await.unwrap();
    let secured: Vec<_> = cluster.nodes().iter().map(|node| node.tls_address().unwrap()).collect();
    let trust = trust(cluster.certificates().unwrap());
    let at = |login: &str, options: &str| {
        format!("rediss+cluster://{login}@{}?timeout=3s&{options}", hosts(&secured))
    };
    let url = at("app:hunter2", &trust);
    let store = connect(&url).await;
    first_use(&*store).await;
    for master in &cluster.nodes()[..3] {
        only_encrypted(master).await;
    }
    for (login, options, kind) in [
        ("app:wrong", trust.as_str(), ErrorKind::Auth),
        ("app:hunter2", "", ErrorKind::Unavailable),
    ] {
        let error = backend_redis::connect(&at(login, options)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
    }

    // A push comes on an encrypted connection, too.
    let holder = LockClient::new(store.clone());
    let guard = holder.lock(name("a")).acquire().await.unwrap();
    let waiter = LockClient::new(connect(&url).await);
    let waiting = tokio::spawn(async move { waiter.lock(name("a")).wait(SOON).acquire().await });
    crate::support::queued(&*store, "a", 1).await;
    let (slot, from) = crate::support::clusters::owner(&cluster, 0).await;
    only_encrypted(&cluster.nodes()[from]).await;
    guard.release().await.unwrap();
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
    assert!(crate::support::calls(&cluster.nodes()[from], "spublish").await > 0);

    let to = (from + 1) % 3;
    cluster.move_slot(slot, to).await.unwrap();
    assert!(quarantined(&*store).await.why.contains("changed its role"));
    only_encrypted(&cluster.nodes()[to]).await;
    cluster.node_mut(to).kill().unwrap();
    until("a replica to take over", SOON, || async {
        // For a moment nobody may own it.
        Ok((cluster.owner_of(slot, from).await.ok() == Some(to + 3)).then_some(()))
    })
    .await
    .unwrap();
    assert!(quarantined(&*store).await.why.contains("changed its role"));
    only_encrypted(&cluster.nodes()[to + 3]).await;
    // Other masters still grant.
    let mut others = 0;
    for number in 0..20 {
        let asked = request(&format!("job {number}"), LEASE);
        others += u32::from(
            store
                .try_acquire(&asked)
                .await
                .is_ok_and(|attempt| matches!(attempt, lock_core::Attempt::Granted(_))),
        );
    }
    assert!(others > 0, "nothing was granted elsewhere");
}

/// The client rejects the certificate of the server to which it was sent. It sends nothing there,
/// and nothing without TLS.
async fn distrusted(url: &str, why: &str, stranger: &Redis) {
    let error = backend_redis::connect(url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(format!("{error:?}").contains(why), "{why}: {error:?}");
    assert_eq!(crate::support::calls(stranger, "hello").await, 0, "{url}");
}

/// The server has a second address, which no certificate covers.
fn twice_bound() -> RedisOptions {
    RedisOptions::new().tls(ClientCertificates::NotAsked).line("bind 127.0.0.1 127.0.0.2")
}

const WRONG_CHAIN: &str = "invalid peer certificate";
const WRONG_NAME: &str = "not valid for name";

#[tokio::test]
async fn sentinels_and_masters_need_valid_certificates() {
    let group = Sentinels::start(0, twice_bound()).await.unwrap();
    let stranger = Redis::start(twice_bound()).await.unwrap();
    let (ours, theirs) = (group.servers()[0].tls_address(), stranger.tls_address());
    let (ours, theirs) = (ours.unwrap().port().to_string(), theirs.unwrap().port().to_string());
    let mut sentinel = direct::talk_to(group.endpoints()[0]).await;
    for (name, host, port) in [("strange", "127.0.0.1", &theirs), ("renamed", "127.0.0.2", &ours)] {
        direct::said(&mut sentinel, &["SENTINEL", "MONITOR", name, host, port, "1"]).await;
    }
    let ca = group.certificates().unwrap().ca.display();
    let at = |sentinel: &SocketAddr, name: &str| {
        format!("rediss+sentinel://{sentinel}/{name}?timeout=20s&ca={ca}")
    };
    let right = group.tls_endpoints()[0];
    connect(&at(&right, Sentinels::MASTER)).await;
    distrusted(&at(&right, "strange"), WRONG_CHAIN, &stranger).await;
    distrusted(&at(&right, "renamed"), WRONG_NAME, &stranger).await;
    let wrong = stranger.tls_address().unwrap();
    distrusted(&at(&wrong, Sentinels::MASTER), WRONG_CHAIN, &stranger).await;
}

#[tokio::test]
async fn a_node_needs_a_valid_certificate_also_for_pushes() {
    let cluster = RedisCluster::start(1, 0, twice_bound()).await.unwrap();
    let stranger = Redis::start(twice_bound()).await.unwrap();
    let node = &cluster.nodes()[0];
    let (seed, elsewhere) = (node.tls_address().unwrap(), stranger.tls_address().unwrap());
    let proxy = Proxy::start(seed).await.unwrap();
    let announce = async |what: &str, value: &str| {
        let set = ["CONFIG", "SET", &format!("cluster-announce-{what}"), value];
        assert_eq!(node.cli(&set).await.unwrap(), "OK");
    };
    announce("tls-port", &proxy.address().port().to_string()).await;
    let ca = cluster.certificates().unwrap().ca.display();
    let at = |seed: &SocketAddr| format!("rediss+cluster://{seed}?timeout=20s&ca={ca}");
    let store = connect(&at(&seed)).await;
    assert!(proxy.counters().accepted > 0, "the node was not reached by the address that it tells");
    first_use(&*store).await;
    crate::support::granted(&*store, &request("a", LEASE)).await;

    // From here on the stranger has the node's address, for the channel and for new connections.
    proxy.redirect(elsewhere);
    let error = store.enqueue(&request("a", LEASE)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(format!("{error:?}").contains(WRONG_CHAIN), "{error:?}");
    assert_eq!(crate::support::calls(&stranger, "hello").await, 0);
    distrusted(&at(&seed), WRONG_CHAIN, &stranger).await;
    distrusted(&at(&elsewhere), WRONG_CHAIN, &stranger).await;

    announce("tls-port", &seed.port().to_string()).await;
    announce("ip", "127.0.0.2").await;
    distrusted(&at(&seed), WRONG_NAME, &stranger).await;
}
