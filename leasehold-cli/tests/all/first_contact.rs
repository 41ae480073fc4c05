//! What a user meets who has named the wrong server, or has to change or repair a store.

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::Duration;

use leasehold::{ErrorKind, LockName};
use serde_json::Value;
use servers::{
    ClientCertificates, Etcd, EtcdOptions, Mariadb, MariadbOptions, Postgres, PostgresOptions,
    Redis, RedisOptions, Server as _, ZooKeeper, ZooKeeperOptions, ports::Port, wait,
};
use tokio::net::TcpListener;

use crate::support::Running;
use crate::support::locks::Store;

fn leasehold(url: &str, args: &[&str]) -> Output {
    let mut command = Command::new(crate::support::command());
    command.env("LEASEHOLD_STORE", url).args(args).output().unwrap()
}

/// The line on stderr of a command that must fail with this exit code.
fn refusal(url: &str, args: &[&str], code: i32) -> String {
    let output = leasehold(url, args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{url} {args:?}: {stderr}");
    stderr
}

fn ok(url: &str, args: &[&str]) -> String {
    let output = leasehold(url, args);
    assert_eq!(output.status.code(), Some(0), "{url} {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_another_kind_is_named() {
    let redis = Redis::start(RedisOptions::new().tls(ClientCertificates::NotAsked)).await.unwrap();
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    let mysql = Mariadb::start(MariadbOptions::new()).await.unwrap();
    let options = ZooKeeperOptions::new().tls(ClientCertificates::NotAsked);
    let zookeeper = ZooKeeper::single(options).await.unwrap();
    let [zookeeper_at, secure_at] = [zookeeper.endpoints()[0], zookeeper.tls_endpoints()[0]];
    let ca = zookeeper.certificates().unwrap().ca.display();
    let [redis_at, etcd_at] = [redis.address(), etcd.endpoints()[0]];
    let tls_at = redis.tls_address().unwrap();
    let [postgres_at, mysql_at] = [postgres.address(), mysql.address()];
    let twemproxy = proxy_that_answers("").await;
    let [unknown, unsupported, without_resp3] = [
        proxy_that_answers("-ERR unknown command 'HELLO', with args beginning with: '3' \r\n")
            .await,
        proxy_that_answers("-ERR unsupported command `hello`\r\n").await,
        proxy_that_answers("-NOPROTO unsupported protocol version\r\n").await,
    ];
    for (url, at, told) in [
        (format!("redis://{etcd_at}"), etcd_at, "such as etcd does"),
        (format!("redis://{tls_at}"), tls_at, "expects TLS: use rediss://"),
        (format!("rediss://{redis_at}?timeout=1s"), redis_at, "without TLS: use redis://"),
        (format!("rediss://{tls_at}"), tls_at, "is not accepted; give the file of its authority"),
        (format!("redis://{postgres_at}"), postgres_at, "a PostgreSQL does: use postgres://"),
        (format!("redis://{mysql_at}"), mysql_at, "a MySQL or MariaDB does"),
        (format!("redis://{zookeeper_at}"), zookeeper_at, "a ZooKeeper does: use zookeeper://"),
        (format!("redis://{twemproxy}"), twemproxy, "such as Twemproxy"),
        (format!("redis://{unknown}"), unknown, "a proxy before it, speaks no RESP3"),
        (format!("redis://{unsupported}"), unsupported, "a proxy before it, speaks no RESP3"),
        (format!("redis://{without_resp3}"), without_resp3, "a proxy before it, speaks no RESP3"),
        (format!("etcd://{redis_at}"), redis_at, "a Redis does"),
        (format!("etcd://{tls_at}"), tls_at, "expects TLS: add ca=FILE"),
        (format!("zookeeper://{redis_at}?timeout=1s"), redis_at, "a Redis does"),
        (format!("zookeeper://{mysql_at}?timeout=1s"), mysql_at, "a MySQL or MariaDB does"),
        (format!("zookeeper://{secure_at}"), secure_at, "expects TLS: add ca=FILE"),
        (format!("zookeeper://{zookeeper_at}?ca={ca}"), zookeeper_at, "a ZooKeeper without TLS"),
        (format!("postgres://u@{redis_at}/d?timeout=1s"), redis_at, "a Redis does"),
        (format!("postgres://u@{mysql_at}/d"), mysql_at, "a MySQL or MariaDB does"),
        (format!("mysql://u@{postgres_at}/d?timeout=1s"), postgres_at, "a PostgreSQL does"),
        (format!("postgres://u@{postgres_at}/d?sslmode=require"), postgres_at, "has no TLS"),
        (format!("mysql://u@{mysql_at}/d?ssl-mode=required"), mysql_at, "has no TLS"),
        (format!("postgres://u@{tls_at}/d?timeout=1s"), tls_at, "begins with TLS"),
        (format!("mysql://u@{tls_at}/d?timeout=1s"), tls_at, "begins with TLS"),
    ] {
        // A wait does not mend it.
        let line = refusal(&url, &["run", "--wait", "forever", "a", "--", "true"], 69);
        assert!(line.contains(told) && line.contains(&at.to_string()), "{url}: {line}");
        // What the driver made of the answer misleads.
        assert!(!line.contains("max_connections") && !line.contains("pool"), "{line}");
    }
}

/// A proxy that knows no HELLO. It answers PING, and this to any other command; if this is empty,
/// it closes the connection, as Twemproxy does (twitter/twemproxy#645, redis/go-redis#2616). The
/// others answer with an error.
async fn proxy_that_answers(other: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut read = [0; 256];
                loop {
                    stream.readable().await.unwrap();
                    let count = match stream.try_read(&mut read) {
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                        read => read.unwrap_or(0),
                    };
                    let is_ping = read[..count].ends_with(b"PING\r\n");
                    let answer = if is_ping { "+PONG\r\n" } else { other };
                    if count == 0 || answer.is_empty() {
                        return;
                    }
                    let _ = stream.try_write(answer.as_bytes());
                }
            });
        }
    });
    address
}

/// The real one, for the soak.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the program nutcracker, for the soak"]
async fn a_twemproxy_is_named() {
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [port, stats] = [Port::reserve().unwrap(), Port::reserve().unwrap()];
    let at = port.address();
    let settings = format!(
        "pool:\n  listen: {at}\n  hash: fnv1a_64\n  redis: true\n  servers:\n   - {}:1\n",
        redis.address()
    );
    let file = folder.path().join("nutcracker.yml");
    std::fs::write(&file, settings).unwrap();
    let mut command = Command::new("nutcracker");
    let stats = stats.address().port().to_string();
    command.arg("-c").arg(&file).args(["-a", "127.0.0.1", "-s", &stats]);
    let _proxy = Running::start(&mut command);
    let listens = async || Ok(std::net::TcpStream::connect(at).is_ok().then_some(()));
    wait::until("the proxy to listen", Duration::from_secs(60), listens).await.unwrap();
    let url = format!("redis://{at}");
    let line = refusal(&url, &["run", "--wait", "forever", "a", "--", "true"], 69);
    assert!(line.contains("such as Twemproxy") && line.contains(&at.to_string()), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_port_is_said_at_once_and_a_wait_for_a_session_is_not() {
    for url in ["postgres://u@127.0.0.1:1/d", "mysql://u@127.0.0.1:1/d", "zookeeper://127.0.0.1:1"]
    {
        // Without the answer, the time limit of a minute would be waited out.
        let line = refusal(&format!("{url}?timeout=1min"), &["inspect", "a"], 69);
        assert!(line.contains("127.0.0.1:1") && line.contains("Connection refused"), "{line}");
        assert!(!line.contains("max_connections"), "{line}");
    }
}

#[tokio::test]
async fn a_paused_clock_is_named() {
    // A server that never answers: a real one may answer before tokio moves the clock.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    tokio::time::pause();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let error = leasehold::connect(url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("paused"), "{error}");
}

#[test]
fn one_grant_is_freed_by_its_token_and_the_next_is_left_alone() {
    let store = Store::new();
    let mut first = store.run(&["--label", "the first"], "echo held; cat");
    assert_eq!(first.line(), "held");
    let seen: Value = serde_json::from_str(&store.ok(&["inspect", "job", "--json"])).unwrap();
    assert_eq!(seen["holder"]["label"], "the first");
    assert!(store.ok(&["list"]).contains("\"the first\""));
    let token = seen["token"].to_string();
    let busy = store.act(&["run", "job", "--", "true"]);
    assert!(String::from_utf8(busy.stderr).unwrap().contains("\"the first\""));

    let other = store.act(&["release", "--force", "job", "--token", "7"]);
    let told = String::from_utf8(other.stderr).unwrap();
    assert_eq!(other.status.code(), Some(75), "{told}");
    assert!(told.contains("\"the first\"") && told.contains(&token), "{told}");
    assert!(store.ok(&["release", "--force", "job", "--token", &token]).contains("the first"));
    let again = store.act(&["release", "--force", "job", "--token", &token]);
    let told = String::from_utf8(again.stderr).unwrap();
    assert_eq!(again.status.code(), Some(75), "{told}");
    assert!(told.contains("it is free"), "{told}");
    assert_eq!(first.code(), 79);
}

#[test]
fn a_label_of_the_url_is_that_of_the_holder() {
    let store = Store::new();
    let url = format!("{}?label=nightly%20at%20night", store.url());
    let mut command = store.leasehold();
    command.env("LEASEHOLD_STORE", url).args(["run", "job", "--", "sh", "-c", "echo held; cat"]);
    let mut holder = Running::start(&mut command);
    assert_eq!(holder.line(), "held");
    assert!(store.ok(&["inspect", "job"]).contains("\"nightly at night\""));
    holder.close_stdin();
    assert_eq!(holder.code(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quarantine_that_runs_is_shown() {
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}", redis.address());
    // Nobody has used it, and the first who does would wait.
    let unused = format!("{url}?longest_lease=1h");
    for action in [&["check"][..], &["inspect", "a"]] {
        let output = leasehold(&unused, action);
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains(" in 1h") || shown.contains(" in 59m"), "{shown}");
        assert!(shown.contains("--first-use"), "{shown}");
    }
    let shown = ok(&url, &["init", "--longest-lease", "1h"]);
    assert!(shown.contains("was changed (if nobody can hold a lock, `leasehold init --first-use`"));
    let json = |args: &[&str]| -> Value { serde_json::from_str(&ok(&url, args)).unwrap() };
    let inspected = json(&["inspect", "a", "--json"]);
    assert!(inspected["grants_in_ms"].as_u64().unwrap() > 3_000_000, "{inspected}");
    assert!(ok(&url, &["inspect", "a"]).contains("grants     in "));
    let shown = String::from_utf8(leasehold(&url, &["check"]).stdout).unwrap();
    assert!(shown.contains("\ngrants        in "), "{shown}");
    ok(&url, &["init", "--longest-lease", "1h", "--first-use"]);
    let shown = String::from_utf8(leasehold(&url, &["check"]).stdout).unwrap();
    assert!(shown.contains("\ngrants        now\n"), "{shown}");
    assert!(!ok(&url, &["inspect", "a"]).contains("quarantine"));
}

/// The three steps of docs/cli.md, with a client of each generation that works through them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_lease_is_changed_while_clients_of_two_generations_work() {
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}", redis.address());
    let (old, new) = (format!("{url}?longest_lease=4s"), format!("{url}?longest_lease=5s"));
    ok(&old, &["init", "--first-use"]);
    let [lease, longer] = [4, 5].map(Duration::from_secs);
    // The store does not have what the URL of the next generation says.
    let error = leasehold::connect(&new).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("change one of them"), "{error}");
    // Nobody has named the lease that is too long.
    let line = refusal(&url, &["run", "a", "--", "true"], 64);
    assert!(line.contains("lease 10s, the default, must be between 10ms and 4s"), "{line}");

    // Step 1: clients without the option.
    let between = leasehold::connect(&url).await.unwrap();
    let held = between.lock("held").lease(lease).acquire().await.unwrap();
    // Step 2: the operator says what it costs, and the URL what is set.
    let output = leasehold(&new, &["init"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.contains("grant nothing for 5s"), "{told}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("longest lease  5s") && shown.contains("grants         in "), "{shown}");
    // Step 3: clients with the new value. Both generations exclude each other.
    let late = leasehold::connect(&new).await.unwrap();
    let busy = late.lock("held").lease(lease).try_acquire().await.unwrap();
    assert!(busy.guard().is_none());
    assert!(held.is_valid(), "a held lock is renewed through the change");
    held.release().await.unwrap();
    let guard = late.lock("held").lease(longer).acquire().await.unwrap();
    assert!(between.lock("held").lease(lease).try_acquire().await.unwrap().guard().is_none());
    guard.release().await.unwrap();
    let name = LockName::new("held").unwrap();
    between.lock(&name).lease(lease).acquire().await.unwrap().release().await.unwrap();
}

/// Every store sets what its own URL says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_sets_what_its_url_says() {
    let store = Store::new();
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    let mysql = Mariadb::start(MariadbOptions::new()).await.unwrap();
    let servers = ZooKeeperOptions::new().line("maxSessionTimeout=400000");
    let zookeeper = ZooKeeper::single(servers).await.unwrap();
    for url in [
        store.url(),
        format!("redis://{}", redis.address()),
        format!("etcd://{}", etcd.endpoints()[0]),
        format!("postgres://postgres@{}/postgres", postgres.address()),
        format!("mysql://root@{}/test", mysql.address()),
        format!("zookeeper://{}", zookeeper.endpoints()[0]),
    ] {
        ok(&url, &["init", "--first-use"]);
        let named = format!("{url}?longest_lease=5m");
        refusal(&named, &["inspect", "a"], 69);
        let shown = ok(&named, &["init", "--longest-lease", "5m", "--first-use"]);
        assert!(shown.contains("longest lease  5m"), "{shown}");
        ok(&named, &["inspect", "a"]);
        let line = refusal(&named, &["init", "--longest-lease", "1m"], 64);
        assert!(line.contains("5m") && line.contains("1m"), "{line}");
    }
}
