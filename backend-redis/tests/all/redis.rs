//! What only Redis has: ways to connect, certificates, settings, subscriptions.

use std::time::Duration;

use backend_redis::RedisBuilder;
use lock_core::{Enqueued, ErrorKind, Init, ReleaseOptions, Signal};
use servers::{ClientCertificates, Redis, RedisOptions, Server as _};

use crate::support::{connect, enqueued, first_use, granted, request, server, server_with, url};

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_wrong_password_is_reported_and_not_shown() {
    let server = Redis::start(RedisOptions::new().password("right")).await.unwrap();
    for login in ["", ":hunter2@", "nobody:hunter2@"] {
        let url = format!("redis://{login}{}", server.address());
        let error = backend_redis::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{login}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
    let url = format!("redis://:right@{}", server.address());
    assert!(!format!("{:?}", connect(&url).await).contains("right"));
}

/// Without a password the redis crate would send no user, and log in as the default user.
#[tokio::test]
async fn a_user_without_a_password_is_that_user() {
    let users = ["user free on nopass ~leasehold:* &* +@all", "user app on >hunter2 ~* &* +@all"];
    let server = Redis::start(RedisOptions::new().line(users[0]).line(users[1])).await.unwrap();
    let login = |user: &str| format!("redis://{user}@{}", server.address());
    let store = connect(&login("free")).await;
    let list = server.cli(&["CLIENT", "LIST"]).await.unwrap();
    assert!(list.contains("user=free "), "{list}");
    drop(store);
    let error = backend_redis::connect(&login("app")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error:?}");
}

/// Any character may be in a password, percent-encoded in a URL.
#[tokio::test]
async fn a_password_may_hold_anything() {
    let password = "p@s:s/w?r#d%+&=,[]{}\u{fc}\u{1f511}";
    let encoded: String = password.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let rules = ["ACL", "SETUSER", "u@h:1", "on", &format!(">{password}"), "~*", "&*", "+@all"];
    assert_eq!(server.cli(&rules).await.unwrap(), "OK");
    let url = format!("redis://u%40h%3a1:{encoded}@{}", server.address());
    let store = connect(&url).await;
    assert!(!format!("{store:?}").contains("s:s"));
    let error = backend_redis::connect(&url.replacen("%2b", "%20", 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error:?}");
    assert!(!format!("{error} {error:?}").contains("s:s"), "{error:?}");
}

/// A server that ends before it has described itself: no request was sent yet.
#[tokio::test]
async fn a_connection_that_breaks_while_it_is_made_is_of_no_unknown_outcome() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let connecting = tokio::spawn(async move { backend_redis::connect(&url).await });
    let (mut client, _) = listener.accept().await.unwrap();
    let mut asked = vec![0; 1000];
    let read = tokio::io::AsyncReadExt::read(&mut client, &mut asked).await.unwrap();
    assert!(String::from_utf8_lossy(&asked[..read]).contains("HELLO"));
    // INFO is only sent after this.
    tokio::io::AsyncWriteExt::write_all(&mut client, b"%1\r\n+proto\r\n:3\r\n").await.unwrap();
    let read = tokio::io::AsyncReadExt::read(&mut client, &mut asked).await.unwrap();
    assert!(String::from_utf8_lossy(&asked[..read]).contains("INFO"));
    drop(client);
    let error = connecting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn a_socket_a_prefix_and_a_database_are_used() {
    let server = Redis::start(RedisOptions::new().unix_socket()).await.unwrap();
    let socket = server.socket().unwrap();
    let store = connect(&format!("unix://{}?db=3&prefix=app", socket.display())).await;
    first_use(&*store).await;
    granted(&*store, &request("a", LEASE)).await;
    let keys = server.cli(&["-n", "3", "KEYS", "*"]).await.unwrap();
    assert!(
        keys.lines().all(|key| key.starts_with("app:{0}:")) && keys.contains("lock:a"),
        "{keys}"
    );
    assert_eq!(server.cli(&["DBSIZE"]).await.unwrap(), "0");
}

/// Otherwise a connection would fail as if the server were down, and be tried again and again.
#[tokio::test]
async fn certificates_that_cannot_be_used_are_refused_before_the_server_is_asked() {
    let options = || RedisOptions::new().tls(ClientCertificates::Required);
    let [one, two] = [Redis::start(options()).await, Redis::start(options()).await];
    let (one, two) = (one.unwrap(), two.unwrap());
    let read = |path| std::fs::read(path).unwrap();
    let [files, others] = [one.certificates().unwrap(), two.certificates().unwrap()];
    let (ca, chain, key) = (read(&files.ca), read(&files.client_cert), read(&files.client_key));
    let text = |pem: &[u8]| String::from_utf8(pem.to_vec()).unwrap();
    let damaged = |pem: &[u8]| text(pem).replacen("\nM", "\n!!", 1).into_bytes();
    for (ca, chain, key, part) in [
        (key.clone(), &chain, &key, "authorities (ca)"),
        (damaged(&ca), &chain, &key, "authorities (ca)"),
        (ca.clone(), &key, &key, "certificate (cert) cannot be read"),
        (ca.clone(), &chain, &chain, "key (key) cannot be read"),
        (ca.clone(), &chain, &damaged(&key), "key (key) cannot be read"),
        (ca.clone(), &chain, &read(&others.client_key), "are not for each other"),
    ] {
        // No server listens there.
        let builder = RedisBuilder::tls("127.0.0.1", 1).roots(ca);
        let error = builder.certificate(chain.clone(), key.clone()).build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{part}: {error:?}");
        assert!(error.to_string().contains(part), "{part}: {error:?}");
        let secret = text(key).lines().nth(2).unwrap().to_owned();
        assert!(!format!("{error:?}").contains(&secret), "{error:?}");
    }
}

#[tokio::test]
async fn a_server_that_evicts_is_refused_unless_allowed() {
    let evicting = RedisOptions::new().line("maxmemory-policy allkeys-lru");
    let server = Redis::start(evicting).await.unwrap();
    let error = backend_redis::connect(&url(&server)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
    connect(&format!("{}?allow_eviction=true", url(&server))).await;
}

/// The first try of a release may have queued its next request, and its reply may be lost. At the
/// time of the repeat, the lock may have been handed to that entry.
#[tokio::test]
async fn a_repeated_release_finds_what_its_next_request_was_given() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let held = granted(&*store, &request("a", LEASE)).await;
    let first = request("a", LEASE);
    let (mut turn, _) = enqueued(&*store, &first).await;
    let next = request("a", LEASE);
    let options = ReleaseOptions::new().with_next(&next);
    let released = store.release(&held, options).await.unwrap();
    assert!(matches!(released.next, Some(Enqueued::Waiting(..))), "{released:?}");
    let Signal::Granted(between) = tokio::time::timeout(SOON, turn.next()).await.unwrap() else {
        panic!("no push")
    };
    store.release(&between, ReleaseOptions::default()).await.unwrap();

    let again = store.release(&held, options).await.unwrap();
    let Some(Enqueued::Granted(grant)) = again.next else { panic!("{again:?}") };
    assert!(grant.token > between.token);
    let state = store.inspect(&grant.name).await.unwrap().unwrap();
    let holder = state.holder.unwrap();
    assert_eq!((holder.owner, state.token, state.waiting), (next.owner, grant.token, Some(0)));
    // Not only the claim window: the holder relies on its lease.
    assert!(holder.remaining > LEASE / 2, "{holder:?}");
}

#[tokio::test]
async fn settings_are_compared_and_a_changed_lease_waits_out_the_old_one() {
    let server = server().await;
    let told = format!("{}?longest_lease=1m", url(&server));
    let error = backend_redis::connect(&told).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("1m") && error.to_string().contains("30s"), "{error}");
    let store = connect(&url(&server)).await;
    let other = connect(&url(&server)).await;
    let longer = Init::new().with_longest_lease(Duration::from_secs(60));
    let settings = store.init(&longer).await.unwrap();
    assert!(settings.grants_in > Duration::from_secs(20), "{settings:?}");
    assert_eq!(store.guarantees().longest_lease, Duration::from_secs(60));
    let told = other.try_acquire(&request("a", LEASE)).await.unwrap();
    assert!(matches!(told, lock_core::Attempt::Quarantined(_)), "{told:?}");
    assert_eq!(other.guarantees().longest_lease, Duration::from_secs(60));
    connect(&format!("{}?longest_lease=1m", url(&server))).await;
}

#[tokio::test]
async fn one_subscription_serves_all_waiters_and_ends_with_the_last() {
    let server = server_with(RedisOptions::new()).await;
    let holder = connect(&url(&server)).await;
    let store = connect(&url(&server)).await;
    let subscribed = async || {
        let channels = server.cli(&["PUBSUB", "CHANNELS"]).await.unwrap();
        let Some(channel) = channels.lines().find(|line| !line.is_empty()) else { return 0 };
        assert_eq!(channels.trim(), channel, "one channel for all");
        let count = server.cli(&["PUBSUB", "NUMSUB", channel]).await.unwrap();
        count.lines().last().unwrap().parse::<u32>().unwrap()
    };
    let mut waiting = Vec::new();
    for text in ["a", "b", "c"] {
        granted(&*holder, &request(text, LEASE)).await;
        waiting.push(enqueued(&*store, &request(text, LEASE)).await.0);
    }
    assert_eq!(subscribed().await, 1);
    for turn in waiting {
        turn.leave().await.unwrap();
    }
    let dropped = async {
        while subscribed().await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, dropped).await.unwrap();
}
