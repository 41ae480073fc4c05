//! Jobs that move from one SQLite file to another.

use crate::support::Running;
use crate::support::locks::{Store, failure};

fn encoded(url: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    url.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Two stores, and calls to both.
struct Pair {
    from: Store,
    to: Store,
}

impl Pair {
    fn new() -> Self {
        Self { from: Store::new(), to: Store::new() }
    }

    fn url(&self, phase: &str) -> String {
        format!("migrate:{phase}?from={}&to={}", encoded(&self.from.url()), encoded(&self.to.url()))
    }

    /// A job under the lock of its own name, in a phase, until it is told to end.
    fn job(&self, phase: &str, name: &str) -> Running {
        let mut command = self.from.leasehold();
        command.args(["run", "--store", &self.url(phase), name, "--", "sh", "-c"]);
        command.arg("echo running; read -r _ || :");
        let job = Running::start(&mut command);
        assert_eq!(job.line(), "running");
        job
    }

    fn args<'a>(&'a self, step: &'a str, urls: &'a [String; 2]) -> [&'a str; 6] {
        ["migrate", step, "--from", &urls[0], "--to", &urls[1]]
    }

    fn says(&self, step: &str) -> String {
        self.from.ok(&self.args(step, &[self.from.url(), self.to.url()]))
    }

    fn refuses(&self, step: &str) -> String {
        let output = self.from.act(&self.args(step, &[self.from.url(), self.to.url()]));
        let (code, line) = failure(&output);
        assert_eq!(code, 75, "{line}");
        line
    }
}

#[test]
fn a_fleet_moves_forward_and_is_told_each_step() {
    let pair = Pair::new();
    assert!(pair.says("status").contains("no process is seen"));
    assert!(
        pair.says("next")
            .contains("if all have the URL FROM, restart each process with migrate:old?")
    );
    assert!(pair.says("back").contains("if all have FROM, it is done"));
    let mut one = pair.job("old", "one");
    let mut two = pair.job("old", "two");
    assert!(pair.says("next").contains("migrate:both?"));
    assert_eq!(two.code(), 0);
    let mut two = pair.job("both", "two");
    let told = pair.refuses("next");
    assert!(told.contains("still in phase old") && told.contains(':'), "{told}");
    let status = pair.says("status");
    assert_eq!(status.lines().filter(|line| line.starts_with("old ")).count(), 1, "{status}");
    assert_eq!(status.lines().filter(|line| line.starts_with("both ")).count(), 1, "{status}");
    let [from, to] = [pair.from.url(), pair.to.url()];
    let status = pair.from.json(&["migrate", "status", "--from", &from, "--to", &to]);
    assert_eq!(status["members"][1]["phase"], "both");
    assert!(status["members"][0]["remaining_ms"].as_u64().unwrap() > 0, "{status}");
    // Two phases at once are refused, and the job does not run.
    let output = pair.from.act(&["run", "--store", &pair.url("new"), "x", "--", "echo", "ran"]);
    let (code, line) = failure(&output);
    assert_eq!(code, 69);
    assert!(line.contains("phase new") && line.contains("two phases away"), "{line}");

    assert_eq!(one.code(), 0);
    assert!(pair.says("next").contains("migrate:new?"));
    assert!(pair.says("back").contains("migrate:old?"));
    let mut one = pair.job("new", "one");
    assert!(pair.refuses("next").contains("still in phase both"));
    assert_eq!(two.code(), 0);
    assert!(pair.says("next").contains("the URL TO"));
    assert!(pair.says("back").contains("migrate:both?"));
    assert_eq!(one.code(), 0);
}

#[test]
fn a_job_in_phase_both_shuts_out_jobs_in_every_phase() {
    let pair = Pair::new();
    let mut holder = pair.job("both", "job");
    let plain = format!("migrate:both?from={}&to={}", pair.from.url(), pair.to.url());
    for store in [pair.url("old"), plain, pair.url("new"), pair.from.url(), pair.to.url()] {
        let output = pair.from.act(&["run", "--store", &store, "job", "--", "echo", "ran"]);
        assert_eq!(failure(&output).0, 75, "{store}");
    }
    assert_eq!(holder.code(), 0);
    let ran = pair.from.ok(&["run", "--store", &pair.url("old"), "job", "--", "echo", "ran"]);
    assert_eq!(ran, "ran\n");
}

#[test]
fn both_stores_are_to_be_named_and_no_password_is_repeated() {
    let pair = Pair::new();
    assert_eq!(failure(&pair.from.act(&["migrate", "status"])).0, 64);
    assert_eq!(failure(&pair.from.act(&["migrate", "jump", "--from", "a:", "--to", "b:"])).0, 64);
    let (from, to) = (pair.from.url(), "nowhere://u:hunter2@h");
    let output = pair.from.act(&["migrate", "status", "--from", &from, "--to", to]);
    let (code, line) = failure(&output);
    assert_eq!(code, 64);
    assert!(!line.contains("hunter2"), "{line}");
    // One store cannot be both.
    let output = pair.from.act(&[
        "run",
        "--store",
        &pair.url("both").replace(&encoded(&pair.to.url()), &encoded(&pair.from.url())),
        "x",
        "--",
        "true",
    ]);
    let (code, line) = failure(&output);
    assert_eq!(code, 69);
    assert!(line.contains("two are needed"), "{line}");
}

/// Stores that cannot be reached, in every family: none of their passwords is shown, in no
/// spelling.
#[test]
#[cfg(all(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "redlock"
))]
fn no_password_of_either_store_is_shown() {
    let pair = Pair::new();
    let password = encoded("p@ss:w/rd%");
    let stores = [
        format!("redis://u:{password}@127.0.0.1:1"),
        format!("redlock://:{password}@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"),
        format!("etcd://u:{password}@127.0.0.1:1"),
        format!("postgres://u:{password}@127.0.0.1:1/d"),
        format!("mysql://u:{password}@127.0.0.1:1/d"),
    ];
    std::thread::scope(|scope| {
        for store in &stores {
            let (pair, from) = (&pair, pair.from.url());
            scope.spawn(move || {
                let url = format!("migrate:both?from={}&to={}", encoded(&from), encoded(store));
                for (args, side) in [
                    (&["migrate", "status", "--from", &from, "--to", store][..], "TO: "),
                    (&["migrate", "next", "--json", "--from", store, "--to", &from], "FROM: "),
                    (&["run", "--store", &url, "x", "--", "echo", "ran"], "store \"to\""),
                    (&["list", "--store", &url], "store \"to\""),
                ] {
                    let output = pair.from.act(args);
                    let (code, line) = failure(&output);
                    assert_eq!(code, 69, "{args:?}: {line}");
                    assert!(line.contains(side), "which of the two: {line}");
                    for part in ["ss:w", "ss%3A", "%25", "w/rd"] {
                        assert!(!line.contains(part), "{line}");
                    }
                }
            });
        }
    });
}

/// A client of another library keeps no record. The store remembers that one was seen, but seeing
/// none proves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg(all(feature = "foreign", feature = "redis"))]
async fn a_client_of_another_library_is_in_the_way_of_the_last_phase() {
    use servers::{Redis, RedisOptions, Server as _};
    let store = Store::new();
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let (from, to) = (format!("redis://{}?layout=redis-py", server.address()), store.url());
    store.ok(&["--store", &from, "init", "--first-use"]);
    let mut job = store.leasehold();
    let both = format!("migrate:both?from={}&to={}", encoded(&from), encoded(&to));
    job.args(["run", "--store", &both, "job", "--", "sh", "-c", "echo running; read -r _ || :"]);
    let mut job = Running::start(&mut job);
    assert_eq!(job.line(), "running");
    let next = ["migrate", "next", "--from", &from, "--to", &to];

    server.cli(&["SET", "theirs", "a value of theirs", "PX", "60000"]).await.unwrap();
    let (code, line) = failure(&store.act(&["run", "--store", &from, "theirs", "--", "true"]));
    assert!(code == 75 && line.contains("a redis-py client: a value of theirs"), "{line}");
    let (code, line) = failure(&store.act(&next));
    assert!(code == 75 && line.contains("still in phase old"), "{line}");
    assert!(line.contains("a redis-py client, seen"), "{line}");

    let epoch = "leasehold-foreign:redis-py:{0}:epoch";
    assert_eq!(server.cli(&["HSET", epoch, "theirs", "1"]).await.unwrap().trim(), "0");
    let told = store.ok(&next);
    assert!(told.contains("migrate:new?") && told.contains("which proves nothing"), "{told}");
    assert_eq!(job.code(), 0);
}
