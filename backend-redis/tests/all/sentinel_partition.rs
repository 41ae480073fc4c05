//! An old master that goes on with its clients; logins; and many clients that reconnect at once.

use std::time::{Duration, Instant};

use conformance_tests::history::{ALL_RULES, Recorder, Rule, assert_clean, check};
use lock_core::{Attempt, ErrorKind, LockClient, LossReason};
use redis::aio::MultiplexedConnection;
use servers::{Mode, Proxy, RedisOptions, Sentinels, Server as _};

use crate::support::{
    connect,
    direct::{said, talk_to},
    granted,
    holders::hold,
    permissions::documented_acl,
    request,
    sentinels::{group, url, url_through},
};

const SOON: Duration = Duration::from_secs(60);

/// Cuts a master off from its replicas and sentinels, but not from its connected clients.
async fn cut_off(group: &Sentinels, old: usize) -> MultiplexedConnection {
    let mut inside = talk_to(group.servers()[old].address()).await;
    // It no longer listens on any address. Connected clients stay, and no new connection is
    // possible.
    said(&mut inside, &["CONFIG", "SET", "bind", ""]).await;
    let clients = said(&mut inside, &["CLIENT", "LIST"]).await;
    let servers = clients
        .lines()
        .filter(|line| line.contains("name=sentinel") || line.contains("flags=S"))
        .map(|line| line.split(' ').next().unwrap().strip_prefix("id=").unwrap());
    let mut killed = 0;
    for id in servers {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(id);
        killed += kill.query_async::<u32>(&mut inside).await.unwrap();
    }
    // Each sentinel has two connections.
    assert!(killed >= 2 + 3, "{clients}");
    assert!(tokio::net::TcpStream::connect(group.servers()[old].address()).await.is_err());
    inside
}

struct Partitioned {
    recorder: Recorder,
    loss: Option<LossReason>,
}

/// A holder on an old master that goes on in its partition, and another on the new one.
async fn partition(
    master_options: RedisOptions,
    options: &str,
    lease: u64,
    promised: bool,
) -> Partitioned {
    let (recorder, lease) = (Recorder::new(1), Duration::from_secs(lease));
    let group = group(master_options, options).await;
    let old = group.master().await.unwrap();
    let mut proxies = Vec::new();
    for sentinel in group.endpoints() {
        proxies.push(Proxy::start(sentinel).await.unwrap());
    }
    let through: Vec<_> = proxies.iter().map(Proxy::address).collect();
    // Its partition contains no sentinel.
    let inside = LockClient::new(connect(&url_through(&through, options)).await);
    let outside = LockClient::new(connect(&url(&group, options)).await);
    let told = outside.guarantees().exclusion.to_string();
    assert_eq!(outside.guarantees().exclusion.holds(), promised, "{told}");
    let part = if promised { "fewer than 1 replicas" } else { "set min-replicas-to-write" };
    assert!(told.contains(part), "{told}");
    let holder = hold(&recorder, &inside, lease).await;
    for proxy in &proxies {
        proxy.set(Mode::Cut).await.unwrap();
    }
    let mut old_master = cut_off(&group, old).await;
    let cut = Instant::now();
    group.failed_over(old).await.unwrap();
    let promoted = cut.elapsed();
    let next = hold(&recorder, &outside, lease).await;
    println!("promoted after {promoted:?}, first grant after {:?}", cut.elapsed());
    assert!(next.token > holder.token);
    let role = said(&mut old_master, &["INFO", "replication"]).await;
    assert!(role.contains("role:master"), "{role}");
    // Both record how long they rely on the lock.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let loss = holder.end().await;
    next.end().await;
    Partitioned { recorder, loss }
}

#[tokio::test]
async fn an_old_master_without_replicas_stops_before_the_new_one_grants() {
    let options =
        RedisOptions::new().line("min-replicas-to-write 1").line("min-replicas-max-lag 3");
    let seen = partition(options, "longest_lease=3s", 3, true).await;
    assert_clean(&seen.recorder.history(), ALL_RULES);
    assert!(seen.loss.is_some(), "the holder in the partition still believes");
}

#[tokio::test]
async fn an_old_master_whose_replicas_acknowledge_nothing_keeps_no_holder() {
    let seen =
        partition(RedisOptions::new(), "longest_lease=3s&wait_replicas=1&wait_timeout=4s", 3, true)
            .await;
    assert_clean(&seen.recorder.history(), ALL_RULES);
    assert!(seen.loss.is_some(), "the holder in the partition still believes");
}

#[tokio::test]
async fn an_old_master_that_goes_on_writing_has_a_holder_of_its_own() {
    let seen = partition(RedisOptions::new(), "longest_lease=5s", 5, false).await;
    assert_eq!(seen.loss, None, "the holder in the partition was told");
    let found = check(&seen.recorder.history(), ALL_RULES);
    assert!(found.iter().any(|violation| violation.rule == Rule::Exclusion), "{found:?}");
}

/// A client that still reaches an old master leaves it when the sentinels name another.
#[tokio::test]
async fn a_client_leaves_an_old_master_that_still_answers() {
    let group = group(RedisOptions::new(), "").await;
    let old = group.master().await.unwrap();
    let store = connect(&url(&group, "")).await;
    granted(&*store, &request("first", Duration::from_secs(1))).await;
    let mut inside = cut_off(&group, old).await;
    group.failed_over(old).await.unwrap();
    servers::wait::until("the client to leave the old master", SOON, || async {
        let answer = store.try_acquire(&request("a", Duration::from_millis(100))).await;
        Ok(matches!(answer, Ok(Attempt::Quarantined(_))).then_some(()))
    })
    .await
    .unwrap();
    let role = said(&mut inside, &["INFO", "replication"]).await;
    assert!(role.contains("role:master"), "{role}");
}

#[tokio::test]
async fn logins_of_sentinels_and_master_are_used_and_a_refusal_is_reported() {
    let app = documented_acl(include_str!("../../src/lib.rs"), "# Permissions", "leasehold");
    let app = format!("{app} +config|get");
    let group = Sentinels::start_patient(1, RedisOptions::new().line(app), SOON).await.unwrap();
    for sentinel in group.endpoints() {
        let mut sentinel = talk_to(sentinel).await;
        let watcher = "ACL SETUSER watcher on >hunter3 -@all +hello +auth \
                       +sentinel|get-master-addr-by-name +sentinel|master";
        said(&mut sentinel, &watcher.split_whitespace().collect::<Vec<_>>()).await;
        said(&mut sentinel, &["ACL", "SETUSER", "default", "off"]).await;
    }
    let hosts: Vec<_> = group.endpoints().iter().map(ToString::to_string).collect();
    let connect_as = |login: &str, sentinel: &str, master: &str| {
        let hosts = hosts.join(",");
        let url = format!("redis+sentinel://{login}@{hosts}/{master}?sentinel_user={sentinel}");
        async move { backend_redis::connect(&url).await }
    };
    let (app, watcher) = ("app:hunter2", "watcher&sentinel_password=hunter3");
    let store = connect_as(app, watcher, Sentinels::MASTER).await.unwrap();
    crate::support::first_use(&*store).await;
    granted(&*store, &request("a", Duration::from_secs(10))).await;
    // Without CONFIG GET the client cannot know for how long an old master accepts writes.
    for server in group.servers() {
        for (setting, value) in [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "3")] {
            assert_eq!(server.cli(&["CONFIG", "SET", setting, value]).await.unwrap(), "OK");
        }
    }
    let told = |store: &dyn lock_core::Backend| store.guarantees().exclusion.to_string();
    let seeing = connect_as(app, watcher, Sentinels::MASTER).await.unwrap();
    assert!(told(&*seeing).contains("has stopped writing 8s after"), "{}", told(&*seeing));
    for server in group.servers() {
        server.cli(&["ACL", "SETUSER", "app", "-config|get"]).await.unwrap();
    }
    let blind = connect_as(app, watcher, Sentinels::MASTER).await.unwrap();
    assert!(told(&*blind).contains("permit CONFIG GET"), "{}", told(&*blind));
    for (login, sentinel, master, kind, part) in [
        ("app:wrong", watcher, Sentinels::MASTER, ErrorKind::Auth, "refuses the user"),
        (app, "watcher&sentinel_password=wrong", Sentinels::MASTER, ErrorKind::Auth, "refuses"),
        (app, watcher, "other", ErrorKind::Config, "no master named \"other\""),
    ] {
        let error = connect_as(login, sentinel, master).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(!format!("{error:?}").contains("hunter"), "{error:?}");
    }
}
