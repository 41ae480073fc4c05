//! The actions for operators on a real store.

use crate::support::locks::{Store, Unprivileged, failure};
use crate::support::pid;

#[test]
fn inspect_and_list_show_who_holds() {
    let store = Store::new();
    assert_eq!(store.ok(&["list"]), "");
    assert_eq!(store.json(&["list"]), serde_json::json!([]));
    assert!(store.ok(&["inspect", "job"]).contains("free"));
    assert!(store.json(&["inspect", "job"])["holder"].is_null());

    let mut holder = store.run(&["--lease", "20s"], "echo $LEASEHOLD_TOKEN; read -r _ || :");
    let token: u64 = holder.line().parse().unwrap();
    let shown = store.json(&["inspect", "job"]);
    assert_eq!(shown["name"], "job");
    assert_eq!(shown["token"], token);
    let left = shown["holder"]["remaining_ms"].as_u64().unwrap();
    assert!((1..=20_000).contains(&left), "{left}");
    let label = shown["holder"]["label"].as_str().unwrap().to_owned();
    assert!(label.ends_with(&format!(":{}", holder.pid().as_raw_nonzero())), "{label}");
    assert_eq!(store.json(&["list"])[0]["holder"]["label"], *label);

    let text = store.ok(&["inspect", "job"]);
    for word in ["job\n", &label, &token.to_string(), "unless renewed"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    let text = store.ok(&["list"]);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains(&label) && text.ends_with(" job\n"), "{text}");

    assert_eq!(holder.code(), 0);
    assert_eq!(store.ok(&["list"]), "");
}

/// Another client chooses the names and labels of its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_name_and_no_label_can_fake_a_line() {
    use leasehold::{ClientOptions, OwnerLabel};
    let store = Store::new();
    // Columns of their own; a line of their own; a text that runs from right to left.
    let columns = format!("host:1{}job", " ".repeat(19));
    let line = "host:1\u{2028}1763800000000000  9s           host:2                   nightly";
    let turned = "host:1 \u{202e}boj\u{2066}";
    let name = "a\u{200b}b\u{2029}1763800000000000  9s           host:3                   nightly";
    let mut guards = Vec::new();
    for (at, label) in [&columns, line, turned, "quoted\" x"].into_iter().enumerate() {
        let label = OwnerLabel::new(label).unwrap();
        let options = ClientOptions::new().with_label(label);
        let client = leasehold::connect_with(store.url(), options).await.unwrap();
        guards.push(client.lock(format!("{name}{at}")).acquire().await.unwrap());
    }
    let text = store.ok(&["list"]);
    let json = store.act(&["list", "--json"]).stdout;
    let mut told = text.clone() + &String::from_utf8(json).unwrap();
    for at in 0..4 {
        let name = format!("{name}{at}");
        told += &store.ok(&["inspect", &name]);
        let refused = store.act(&["run", &name, "--", "true"]);
        told += &String::from_utf8(refused.stderr).unwrap();
    }
    let unseen = "\u{200b}\u{2028}\u{2029}\u{202e}\u{2066}";
    assert!(!told.contains(|each| unseen.contains(each)), "{told:?}");
    assert_eq!(text.lines().count(), 5, "{text}");
    for label in [
        &format!(" \"{columns}\" ")[..],
        " \"host:1\\u{2028}1763",
        " \"host:1 \\u{202e}boj\\u{2066}\" ",
        " \"quoted\\\" x\" ",
    ] {
        assert!(text.contains(label), "{label} in {text}");
    }
    // A program reads the name as it is.
    let json = store.json(&["list"]);
    assert_eq!(json[0]["name"], format!("{name}0"));
    let said = store.ok(&["release", "--force", &format!("{name}1")]);
    assert!(said.contains("\"host:1\\u{2028}") && !said.contains('\u{2028}'), "{said:?}");
}

#[test]
fn what_is_kept_for_a_minimum_hold_is_said_to_be_released() {
    let store = Store::new();
    assert_eq!(store.run(&["--at-least", "30s"], "true").code(), 0);
    assert_eq!(store.json(&["inspect", "job"])["kept"], true);
    let text = store.ok(&["inspect", "job"]);
    assert!(text.contains("released") && text.contains("its minimum hold"), "{text}");
    assert!(!text.contains("unless renewed"), "{text}");
    assert!(store.ok(&["list"]).contains(", released "));
}

#[test]
fn a_release_by_force_says_whom_it_hit() {
    let store = Store::new();
    assert_eq!(store.json(&["release", "--force", "job"])["released"], false);
    assert_eq!(store.ok(&["release", "--force", "job"]), "job: nobody held it\n");
    let mut holder = store.run(&["--lease", "5s"], "echo $LEASEHOLD_OWNER; exec sleep 1000");
    let owner = holder.line();
    let said = store.json(&["release", "--force", "job"]);
    assert_eq!((&said["released"], &said["holder"]["owner"]), (&true.into(), &owner.into()));
    assert_eq!(store.ok(&["run", "job", "--", "echo", "mine"]), "mine\n");
    assert_eq!(holder.code(), 79);
}

#[test]
fn init_sets_the_longest_lease_for_everybody() {
    let store = Store::new();
    let set = store.json(&["init", "--first-use", "--longest-lease", "5s"]);
    assert_eq!(set["longest_lease_ms"], 5000);
    assert_eq!(set["grants_in_ms"], 0);
    let (code, line) = failure(&store.act(&["run", "--lease", "6s", "job", "--", "true"]));
    assert_eq!(code, 64);
    assert!(line.contains("6s") && line.contains("5s"), "{line}");
    assert_eq!(store.ok(&["run", "--lease", "5s", "job", "--", "echo", "ran"]), "ran\n");
    // Without arguments it shows the settings.
    assert!(store.ok(&["init"]).contains("longest lease  5s"));
}

#[test]
fn check_prints_what_the_store_guarantees() {
    let store = Store::within(env!("CARGO_TARGET_TMPDIR"));
    let text = store.ok(&["check"]);
    let words = "round trip|exclusion|assuming|tokens|hand-over     yes|10ms|30s|not leave this machine|clock|version 1";
    for word in words.split('|').chain([&store.url()[..]]) {
        assert!(text.contains(word), "{word} in {text}");
    }
    let json = store.json(&["check"]);
    assert_eq!(json["guarantees"]["longest_lease_ms"], 30_000);
    assert_eq!(json["guarantees"]["record_version"], 1);
    assert_eq!(json["clock_difference_micros"], serde_json::Value::Null);
    assert!(json["round_trip_micros"].is_u64(), "{json}");
    assert!(warnings(&json).is_empty(), "{json}");
    let mut lines = text.lines().filter(|line| line.starts_with("warning"));
    assert!(lines.all(|line| line.contains("20 times")), "{text}");
    assert!(json["guarantees"]["exclusion"]["holds"]["assuming"].is_array(), "{json}");
}

/// A cleaner may delete the file while locks are held.
#[test]
fn check_warns_of_a_file_in_a_folder_that_others_empty() {
    let store = Store::within("/tmp");
    let json = store.json(&["check"]);
    let [warning] = &warnings(&json)[..] else { panic!("{json}") };
    assert!(warning.contains("is in /tmp: cleaners"), "{json}");
    let text = store.ok(&["check"]);
    assert!(text.contains("warning ") && text.contains("/var/lib/app"), "{text}");
}

/// The warnings of `check`, but for that of a slow store: on a busy machine any store may be slow.
fn warnings(json: &serde_json::Value) -> Vec<&str> {
    let all = json["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap());
    all.filter(|warning| !warning.contains("20 times")).collect()
}

/// For health checks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg(feature = "redis")]
async fn check_fails_where_exclusion_is_not_promised_and_measures_a_slow_store() {
    use servers::{Mode, Proxy, Redis, RedisOptions, Server as _};
    let (store, server) = (Store::new(), Redis::start(RedisOptions::new()).await.unwrap());
    let proxy = Proxy::start(server.address()).await.unwrap();
    let url = format!("redis://{}?timeout=60s", proxy.address());
    store.ok(&["--store", &url, "init", "--first-use"]);
    assert!(warnings(&store.json(&["--store", &url, "check"])).is_empty());

    let direct = format!("redis://{}", server.address());
    store.ok(&["--store", &direct, "init", "--quarantine", "off"]);
    let output = store.act(&["--store", &direct, "check"]);
    assert_eq!(output.status.code(), Some(78));
    let text = String::from_utf8(output.stdout).unwrap();
    let warning = text.lines().find(|line| line.starts_with("warning ")).unwrap();
    assert!(warning.contains("not promise exclusion: the quarantine is off"), "{text}");
    let output = store.act(&["--store", &direct, "check", "--json"]);
    assert_eq!(output.status.code(), Some(78));
    assert_eq!(warnings(&serde_json::from_slice(&output.stdout).unwrap()).len(), 1);

    store.ok(&["--store", &direct, "init", "--quarantine", "on", "--first-use"]);
    let late = std::time::Duration::from_millis(600);
    proxy.set(Mode::Delay { to_server: late, to_client: std::time::Duration::ZERO }).await.unwrap();
    let json = store.json(&["--store", &url, "check"]);
    assert!(json["round_trip_micros"].as_u64().unwrap() >= 600_000, "{json}");
    assert!(json["warnings"][0].as_str().unwrap().contains("20 times"), "{json}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg(feature = "postgres")]
async fn a_database_without_the_tables_does_not_pass_the_check() {
    use servers::{Postgres, PostgresOptions, Server as _};
    let (store, server) = (Store::new(), Postgres::start(PostgresOptions::new()).await.unwrap());
    let url = format!("postgres://postgres@{}/postgres", server.address());
    for args in [&["check"][..], &["run", "job", "--", "echo", "ran"]] {
        let (code, line) = failure(&store.act(&[&["--store", &url], args].concat()));
        assert_eq!(code, 69);
        assert!(line.contains("tables") && line.contains("`leasehold --store URL init`"), "{line}");
        assert_eq!(line.matches("does not exist").count(), 1, "{line}");
    }
    store.ok(&["--store", &url, "init"]);
    assert!(store.ok(&["--store", &url, "check"]).contains("exclusion"));
}

/// The column "waiting" of the README's table of stores agrees with the guarantees of the stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg(all(
    feature = "etcd",
    feature = "foreign",
    feature = "mysql",
    feature = "object-store",
    feature = "postgres",
    feature = "redis",
    feature = "redlock",
    feature = "zookeeper"
))]
async fn each_store_waits_as_the_readme_says() {
    use servers::{
        Etcd, EtcdOptions, Mariadb, MariadbOptions, Postgres, PostgresOptions, Redis, RedisOptions,
        S3, Server as _, ZooKeeper, ZooKeeperOptions,
    };
    let store = Store::new();
    let s3 = S3::start().await.unwrap();
    let nodes = Redis::start_many(3, RedisOptions::new()).await.unwrap();
    let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    // `check` finds fault with a server that may lose what it has committed to ShedLock's table.
    let flushing = PostgresOptions::new().line("fsync = on");
    let postgres = Postgres::start(flushing).await.unwrap();
    let mysql = Mariadb::start(MariadbOptions::new()).await.unwrap();
    let zookeeper = ZooKeeper::single(ZooKeeperOptions::new()).await.unwrap();
    let readme = include_str!("../../../README.md");
    for url in [
        "memory:".to_owned(),
        store.url(),
        format!("redis://{}", hosts[0]),
        format!("redis://{}?layout=redis-py", hosts[0]),
        format!("redlock://{}", hosts.join(",")),
        s3.store_url(),
        format!("etcd://{}", etcd.endpoints()[0]),
        format!("zookeeper://{}", zookeeper.endpoints()[0]),
        format!("postgres://postgres@{}/postgres", postgres.address()),
        format!("postgres://postgres@{}/postgres?layout=shedlock", postgres.address()),
        format!("mysql://root@{}/test?ssl-mode=disabled", mysql.address()),
        format!("mysql://root@{}/test?ssl-mode=disabled&layout=shedlock", mysql.address()),
    ] {
        store.ok(&["--store", &url, "init"]);
        let check = store.json(&["--store", &url, "check"]);
        let kind = check["backend"].as_str().unwrap();
        assert_eq!(check["guarantees"]["connection"], "local", "{check}");
        let row = readme.lines().find(|line| line.starts_with(&format!("| [`{kind}`]"))).unwrap();
        let told = row.split(" | ").nth(2).unwrap();
        let promised = ["push", "fair"].map(|what| check["guarantees"][what].as_bool().unwrap());
        let expected = match promised {
            [true, true] => "in order, woken by push",
            [true, false] => "woken by push, order not guaranteed",
            [false, true] => "in order, by polling",
            [false, false] => "polls, no order",
        };
        assert!(told.starts_with(expected), "{kind}: {told}");
    }
}

/// A store that cannot do this must not look as if it had.
#[test]
fn init_refuses_a_restore_that_the_store_cannot_wait_out() {
    let store = Store::new();
    let (code, line) = failure(&store.act(&["init", "--restored"]));
    assert_eq!(code, 64);
    assert!(line.contains("unsupported") && line.contains("restored"), "{line}");
    let (code, line) = failure(&store.act(&["init", "--restored", "--first-use"]));
    assert_eq!(code, 64);
    assert!(line.contains("--first-use"), "{line}");
}

#[test]
fn schema_prints_sql_and_touches_nothing() {
    let store = Store::new();
    let sql = store.ok(&["schema"]);
    assert!(sql.to_uppercase().contains("CREATE TABLE"), "{sql}");
    assert_eq!(store.json(&["schema"])["sql"].as_str().unwrap().trim_end(), sql.trim_end());
    assert_eq!(std::fs::read_dir(store.directory()).unwrap().count(), 0);
}

/// Without a server: nothing is connected to.
#[test]
#[cfg(all(feature = "mysql", feature = "postgres"))]
fn schema_prints_the_sql_of_each_database() {
    let store = Store::new();
    for (url, word) in [
        (
            "postgres://nobody@127.0.0.1:1/app?table_prefix=jobs",
            "UNLOGGED TABLE IF NOT EXISTS \"public\".\"jobs_locks\"",
        ),
        ("mysql://nobody@127.0.0.1:1/app?table_prefix=jobs", "TABLE IF NOT EXISTS `jobs_locks`"),
    ] {
        let sql = store.ok(&["schema", "--store", url]);
        assert!(sql.contains(word) && sql.contains("jobs_fence") && !sql.contains('{'), "{sql}");
    }
}

#[test]
fn the_default_store_is_a_file_of_the_users_own() {
    let user = Unprivileged::new();
    let state = user.home().join("state");
    for (xdg, file) in [
        (None, user.home().join(".local/state/leasehold/locks.db")),
        (Some(&state), state.join("leasehold/locks.db")),
    ] {
        let mut command = user.leasehold();
        command.args(["run", "job", "--", "sh", "-c", "echo $$"]);
        if let Some(xdg) = xdg {
            command.env("XDG_STATE_HOME", xdg);
        }
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        pid(&String::from_utf8(output.stdout).unwrap());
        assert!(file.is_file(), "{file:?}");
    }
}

#[test]
fn two_spellings_of_one_file_are_one_store() {
    let store = Store::new();
    let mut holder = store.run(&[], "echo up; read -r _ || :");
    assert_eq!(holder.line(), "up");
    let mut command = store.leasehold();
    command.current_dir(store.directory()).env("LEASEHOLD_STORE", "sqlite:./locks.db");
    let output = command.args(["run", "job", "--", "true"]).output().unwrap();
    assert_eq!(failure(&output).0, 75);
    // An option is stronger than the environment.
    let mut command = store.leasehold();
    command.args(["--store", "nonsense:", "list"]);
    assert_eq!(failure(&command.output().unwrap()).0, 64);
    assert_eq!(holder.code(), 0);
}
