//! The command with hostile servers and clients.

use std::process::Stdio;

use crate::support::locks::{Store, failure};

const LIMIT: u64 = (1 << 53) - 1;

/// Another client has used the tokens up. The store accepts what `check` advises.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg(all(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "redlock"
))]
async fn check_advises_what_to_do_if_tokens_are_used_up() {
    use servers::{
        Etcd, EtcdOptions, Mariadb, MariadbOptions, Postgres, PostgresOptions, Redis, RedisOptions,
        Server as _,
    };
    use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};

    let store = Store::new();
    let nodes = Redis::start_many(3, RedisOptions::new()).await.unwrap();
    let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    let mysql = Mariadb::start(MariadbOptions::new()).await.unwrap();
    let [reset, restored, anew] = ["--reset-tokens", "--restored", "drop the tables"];
    for (url, helps) in [
        (store.url(), anew),
        (format!("redis://{}", hosts[0]), reset),
        (format!("redlock://{}", hosts.join(",")), reset),
        (format!("etcd://{}", etcd.endpoints()[0]), restored),
        (format!("postgres://postgres@{}/postgres", postgres.address()), reset),
        (format!("mysql://root@{}/test?ssl-mode=disabled", mysql.address()), anew),
    ] {
        store.ok(&["--store", &url, "init", "--first-use"]);
        let check = store.json(&["--store", &url, "check"]);
        assert_eq!(check["tokens_used_up"], false, "{check}");
        let kind = check["backend"].as_str().unwrap();
        let sql = |table: &str| format!("UPDATE {table} SET watermark = {LIMIT}");
        match kind {
            "sqlite" => {
                let path = store.beside("locks.db");
                let path = format!("sqlite:{}", path.display());
                let mut file = SqliteConnection::connect(&path).await.unwrap();
                file.execute(AssertSqlSafe(sql("leasehold_settings"))).await.unwrap();
            }
            "postgres" => drop(postgres.sql(&sql("leasehold_marker")).await.unwrap()),
            "mysql" => drop(mysql.sql(&sql("test.leasehold_settings")).await.unwrap()),
            "etcd" => {
                let key = "leasehold/%leasehold/settings";
                let text = etcd.ctl(&["get", key, "--print-value-only"]).await.unwrap();
                let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
                record["offset"] = LIMIT.into();
                etcd.ctl(&["put", key, &record.to_string()]).await.unwrap();
            }
            _ => {
                let prefix = if kind == "redis" { "leasehold" } else { "leasehold-redlock" };
                for node in &nodes {
                    let epoch = format!("{prefix}:{{0}}:epoch");
                    let limit = LIMIT.to_string();
                    node.cli(&["HSET", &epoch, "top", &limit, "mark", &limit]).await.unwrap();
                }
            }
        }
        let check = store.json(&["--store", &url, "check"]);
        assert_eq!(check["tokens_used_up"], true, "{check}");
        let text = store.ok(&["--store", &url, "check"]);
        let line = text.lines().find(|line| line.starts_with("highest token")).unwrap();
        assert!(line.contains("tokens are used up") && line.contains(helps), "{kind}: {line}");
        for option in [reset, restored] {
            assert!(option == helps || !line.contains(option), "{kind}: {line}");
        }
        let option = if helps == anew { reset } else { helps };
        let mended = store.act(&["--store", &url, "init", option]);
        if helps == anew {
            assert_eq!(failure(&mended).0, 64, "{kind}");
            continue;
        }
        assert_eq!(mended.status.code(), Some(0), "{kind}: {mended:?}");
        let check = store.json(&["--store", &url, "check"]);
        assert_eq!(check["tokens_used_up"], false, "{kind}: {check}");
    }
}

/// An operator may take a lock away without the permission to read the holder's label.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg(feature = "postgres")]
async fn a_release_by_force_needs_no_look() {
    use servers::{Postgres, PostgresOptions, Server as _};

    let (store, server) = (Store::new(), Postgres::start(PostgresOptions::new()).await.unwrap());
    let url = |role: &str| format!("postgres://{role}@{}/postgres", server.address());
    store.ok(&["--store", &url("postgres"), "init"]);
    let role = "CREATE ROLE blind LOGIN; GRANT SELECT ON leasehold_settings, leasehold_marker TO blind; \
        GRANT SELECT (name, owner, expires, version, waiters, token), UPDATE ON leasehold_locks TO blind; \
        INSERT INTO leasehold_locks (name, owner, token, version, expires, kept) \
        VALUES ('job', repeat('a', 32), 1, 1, 'infinity', false)";
    server.sql(role).await.unwrap();
    assert_eq!(failure(&store.act(&["--store", &url("blind"), "inspect", "job"])).0, 69);
    let told = store.ok(&["--store", &url("blind"), "release", "--force", "job"]);
    assert_eq!(told, "job: taken away\n");
    assert!(store.ok(&["--store", &url("postgres"), "inspect", "job"]).contains("free"));
}

/// The answer of a server stays on its line, and does not change the direction of writing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg(feature = "redis")]
async fn an_answer_of_a_server_cannot_fake_a_line() {
    use servers::{Proxy, Redis, RedisOptions, Server as _};

    let (store, server) = (Store::new(), Redis::start(RedisOptions::new()).await.unwrap());
    let proxy = Proxy::start(server.address()).await.unwrap();
    proxy.alter_answers(&[("noeviction", "no\u{202e}evict")]).unwrap();
    let url = format!("redis://{}?allow_eviction=true", proxy.address());
    for action in [&["init", "--first-use"][..], &["check"]] {
        let output = store.act(&[&["--store", &url], action].concat());
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(told.contains("no\\u{202e}evict") && !told.contains('\u{202e}'), "{told:?}");
    }
    assert!(proxy.counters().altered > 0, "the fault did not happen");
}

/// Names in warnings cannot fake a line either.
#[test]
fn a_name_in_a_warning_cannot_fake_a_line() {
    for (format, told) in [("text", "a\\u{202e}b"), ("json", "a\\u202eb")] {
        let store = Store::new();
        let name = "a\u{202e}b";
        let mut command = store.leasehold();
        command.args(["--log-format", format, "run", "--lease", "5s", name, "--"]);
        command.args(["sh", "-c", "echo up; exec sleep 1000"]);
        let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut up = [0; 3];
        std::io::Read::read_exact(job.stdout.as_mut().unwrap(), &mut up).unwrap();
        store.ok(&["release", "--force", name]);
        let output = job.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(79));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("lock lost") && text.contains(told), "{format}: {text:?}");
        assert!(!text.contains('\u{202e}'), "{format}: {text:?}");
        if format == "json" {
            let events: Result<Vec<serde_json::Value>, _> =
                text.lines().map(serde_json::from_str).collect();
            events.unwrap();
        }
    }
}
