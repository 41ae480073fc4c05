//! Readers under one COMMAND each, and a writer beside them.

use servers::{Redis, RedisOptions, Server as _};

use crate::support::locks::{Store, failure};
use crate::support::{Running, until};

/// `leasehold` on a Redis.
struct OnRedis {
    files: Store,
    url: String,
    _server: Redis,
}

impl OnRedis {
    async fn start() -> Self {
        let server = Redis::start(RedisOptions::new()).await.unwrap();
        let (files, url) = (Store::new(), format!("redis://{}", server.address()));
        let store = Self { files, url, _server: server };
        store.ok(&["init", "--first-use"]);
        store
    }

    fn ok(&self, args: &[&str]) -> String {
        self.files.ok(&[&["--store", &self.url], args].concat())
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat())).unwrap()
    }

    fn run(&self, options: &[&str], script: &str) -> Running {
        let mut command = self.files.leasehold();
        command.args(["--store", &self.url, "run"]).args(options);
        Running::start(command.args(["data", "--", "sh", "-c", script]))
    }

    /// A job that says that it has begun, and ends when it is told.
    fn job(&self, options: &[&str]) -> Running {
        let job = self.run(options, "echo $LEASEHOLD_TOKEN; read -r _ || :");
        assert!(job.line().parse::<u64>().is_ok());
        job
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_run_beside_each_other_and_a_writer_after_them() {
    let store = OnRedis::start().await;
    assert!(store.ok(&["check"]).contains("\nshared        holds"));
    let mut readers = vec![store.job(&["--shared"]), store.job(&["--shared"])];
    assert_eq!(store.json(&["inspect", "data"])["readers"], 2);
    let told = store.ok(&["inspect", "data"]);
    assert!(told.contains("  shared by  2 readers\n") && told.contains("  last came  "), "{told}");
    assert!(store.ok(&["list"]).contains(" 2 readers, "));

    let refused = ["--store", &store.url, "run", "data", "--", "echo", "ran"];
    let (code, line) = failure(&store.files.act(&refused));
    assert_eq!(code, 75);
    assert!(line.contains("held by readers, of whom "), "{line}");

    let writer = store.run(&["--wait", "60s"], "echo writes; read -r _ || :");
    until("the writer waits", || (store.json(&["inspect", "data"])["waiting"] == 1).then_some(()));
    let late = ["--store", &store.url, "run", "--shared", "data", "--", "echo", "ran"];
    assert_eq!(failure(&store.files.act(&late)).0, 75, "no reader passes a writer that waits");
    for reader in &mut readers {
        assert_eq!(reader.code(), 0);
    }
    let mut writer = writer;
    assert_eq!(writer.line(), "writes");
    assert_eq!(store.json(&["inspect", "data"])["readers"], serde_json::Value::Null);
    assert_eq!(writer.code(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_by_force_ends_all_readers() {
    let store = OnRedis::start().await;
    let short = ["--shared", "--lease", "5s", "--loss-grace", "100ms"];
    let mut readers = [store.job(&short), store.job(&short)];
    let told = store.ok(&["release", "--force", "data"]);
    assert!(told.starts_with("data: taken from all readers, of whom "), "{told}");
    for reader in &mut readers {
        reader.until_all_gone();
        assert_eq!(reader.code(), 79);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg(feature = "foreign")]
async fn a_reader_is_refused_where_the_store_has_no_shared_locks() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}?layout=redisson", server.address());
    let (store, shared) = (Store::new(), ["run", "--shared", "data", "--", "echo", "ran"]);
    let (code, line) = failure(&store.act(&[&["--store", &url][..], &shared].concat()));
    assert_eq!(code, 64);
    assert!(line.contains("no shared locks: the backend grants exclusive locks only"), "{line}");
}

#[test]
fn a_reader_is_refused_with_what_is_for_writers() {
    let store = Store::new();
    for option in [["--permits", "2"], ["--at-least", "1s"]] {
        let args = [&["run", "--shared"], &option[..], &["data", "--", "true"]].concat();
        let (code, line) = failure(&store.act(&args));
        assert_eq!(code, 64);
        assert!(line.contains("--shared") && line.contains(option[0]), "{line}");
    }
}
