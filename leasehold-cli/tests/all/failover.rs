//! What `check` and `init` show about a Redis that fails over, and what jobs do after a loss of
//! data.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::Running;
use rustix::process::Signal;
use serde_json::Value;
use servers::{Data, Redis, RedisCluster, RedisOptions, Sentinels, Server as _};

/// The output of a command that has to succeed.
fn told(url: &str, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    let output = command.env("LEASEHOLD_STORE", url).args(args).output().unwrap();
    // What a change of the longest lease costs is said before.
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stderr = stderr.lines().filter(|line| !line.contains("the longest lease becomes"));
    let stderr = stderr.collect::<String>();
    let stdout = String::from_utf8(output.stdout).unwrap();
    // The exit code of `check` also depends on whether exclusion is promised.
    let withheld = match serde_json::from_str::<Value>(&stdout) {
        Ok(json) => json["guarantees"]["exclusion"]["withheld"].is_object(),
        Err(_) => stdout.contains("\nexclusion     withheld"),
    };
    let code = if args[0] == "check" && withheld { 78 } else { 0 };
    assert_eq!((output.status.code(), &*stderr), (Some(code), ""), "{args:?} on {url}: {stdout}");
    stdout
}

fn json(url: &str, args: &[&str]) -> Value {
    let args: Vec<_> = args.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&told(url, &args)).unwrap()
}

/// What `leasehold check` says of exclusion.
fn exclusion(url: &str) -> String {
    let text = told(url, &["check"]);
    let (_, text) = text.split_once("\nexclusion ").unwrap();
    text.split("\nshared ").next().unwrap().to_owned()
}

/// The assumptions of exclusion, by their ids.
fn assumptions(url: &str) -> BTreeSet<String> {
    let answer = json(url, &["check"]);
    let assuming = answer["guarantees"]["exclusion"]["holds"]["assuming"].as_array().unwrap();
    assuming.iter().map(|each| each["id"].as_str().unwrap().to_owned()).collect()
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

async fn set(servers: &[Redis], setting: &str, value: &str) {
    for server in servers {
        assert_eq!(server.cli(&["CONFIG", "SET", setting, value]).await.unwrap(), "OK");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_says_of_sentinels_whether_exclusion_is_promised_and_what_to_set() {
    let group =
        Sentinels::start_patient(1, RedisOptions::new(), Duration::from_secs(60)).await.unwrap();
    let hosts: Vec<_> = group.endpoints().iter().map(ToString::to_string).collect();
    let url = format!("redis+sentinel://{}/{}", hosts.join(","), Sentinels::MASTER);
    told(&url, &["init", "--first-use"]);
    let line = exclusion(&url);
    says(
        &line,
        &["withheld", "set min-replicas-to-write and min-replicas-max-lag", "wait_replicas"],
    );
    assert!(json(&url, &["check"])["guarantees"]["exclusion"]["withheld"].is_object());

    let waits = format!("{url}?wait_replicas=1");
    says(&exclusion(&waits), &["holds", "fewer than 1 replicas, so that no grant or renewal"]);
    assert!(assumptions(&waits).contains("old-master-is-not-acknowledged"));

    set(group.servers(), "min-replicas-to-write", "1").await;
    set(group.servers(), "min-replicas-max-lag", "3").await;
    let line = exclusion(&url);
    let parts = ["fewer than 1 replicas (its min-replicas-to-write)", "stopped writing 8s after"];
    says(&line, &["holds, assuming that\n              - ", parts[0], parts[1]]);
    assert!(assumptions(&url).contains("old-master-stops"));
    says(&exclusion(&format!("{url}?failover_margin=20s")), &["stopped writing 20s after"]);
    says(&exclusion(&format!("{url}?longest_lease=30s")), &["holds"]);
    // A setting of the store withdraws the promise.
    told(&url, &["init", "--quarantine", "off"]);
    says(&exclusion(&url), &["withheld", "the quarantine is off", "turn it on with init"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_says_of_a_cluster_what_its_node_timeout_promises_and_init_sets_every_bucket() {
    let app = "user blind on >pass ~* &* +@all -config";
    let options = RedisOptions::new().line("cluster-node-timeout 60000").line(app);
    let cluster = RedisCluster::start(3, 0, options).await.unwrap();
    let hosts: Vec<_> = cluster.endpoints().iter().map(ToString::to_string).collect();
    let url = format!("redis+cluster://{}", hosts.join(","));
    let set = json(&url, &["init", "--first-use", "--longest-lease", "7s"]);
    assert_eq!((&set["longest_lease_ms"], &set["grants_in_ms"]), (&7000.into(), &0.into()));
    let mut records = BTreeSet::new();
    for node in cluster.nodes() {
        let keys = node.cli(&["KEYS", "leasehold:{*}:epoch"]).await.unwrap();
        assert!(!keys.is_empty(), "a node without a bucket");
        for key in keys.lines() {
            assert_eq!(node.cli(&["HGET", key, "longest"]).await.unwrap(), "7000000", "{key}");
            assert_eq!(node.cli(&["HGET", key, "from"]).await.unwrap(), "0", "{key}");
            records.insert(key.to_owned());
        }
    }
    let all = (0..64).map(|bucket| format!("leasehold:{{{bucket}}}:epoch"));
    assert_eq!(records, all.collect());
    // A changed longest lease waits out the old one, in all of them.
    let set = json(&url, &["init", "--longest-lease", "9s"]);
    assert_eq!(set["grants_in_ms"], 9000 + 124_000);
    // It waits out earlier longer leases, too, unless an operator says that nobody holds one.
    let set = json(&url, &["init", "--longest-lease", "5s"]);
    assert_eq!(set["grants_in_ms"], 9000 + 124_000);
    json(&url, &["init", "--first-use"]);
    let set = json(&url, &["init", "--longest-lease", "6s"]);
    assert_eq!(set["grants_in_ms"], 6000 + 124_000);

    // Twice the node timeout and 4 s.
    let parts = ["holds", "stopped writing 2m 4s after", "CLUSTER FAILOVER TAKEOVER"];
    says(&exclusion(&url), &parts);
    let known = assumptions(&url);
    for id in ["old-master-stops", "slots-move-whole", "clients-agree-on-settings"] {
        assert!(known.contains(id), "{id} in {known:?}");
    }
    let blind = url.replace("://", "://blind:pass@");
    let withheld = "permit CONFIG GET for cluster-node-timeout, or set failover_margin";
    says(&exclusion(&blind), &["withheld", withheld]);
    assert!(!told(&blind, &["check"]).contains("pass@"), "a password was shown");
    says(&exclusion(&format!("{blind}?failover_margin=30s")), &["holds", "writing 30s after"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_and_check_warn_of_a_longest_lease_that_the_url_does_not_name() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}", server.address());
    let set = ["init", "--first-use", "--longest-lease", "1m"];
    let parts =
        ["withheld", "clients-agree-on-settings is not met", "set longest_lease=1m in every"];
    let shown = told(&url, &set);
    says(shown.lines().find(|line| line.starts_with("exclusion ")).unwrap(), &parts);
    says(json(&url, &set)["warning"].as_str().unwrap(), &parts);
    says(&exclusion(&url), &parts);
    // A URL that names it causes no warning.
    let telling = format!("{url}?longest_lease=1m");
    says(&exclusion(&telling), &["holds"]);
    assert!(json(&telling, &set)["warning"].is_null());
    // A shorter longest lease is no danger.
    let shorter = told(&url, &["init", "--first-use", "--longest-lease", "5s"]);
    assert!(!shorter.contains("exclusion"), "{shorter}");
    says(&exclusion(&url), &["holds"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_says_that_tokens_are_used_up_and_init_sets_them_back() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}", server.address());
    told(&url, &["init", "--first-use", "--longest-lease", "4s"]);
    let record = "leasehold:{0}:epoch";
    server.cli(&["HSET", record, "mark", "9007199254740991"]).await.unwrap();
    says(&told(&url, &["check"]), &["tokens are used up", "--reset-tokens"]);
    assert_eq!(json(&url, &["check"])["tokens_used_up"], true);
    let set = json(&url, &["init", "--reset-tokens"]);
    assert_eq!(set["grants_in_ms"], 4000);
    assert!(!told(&url, &["check"]).contains("used up"));
    let mut job = run(&url, &["--lease", "4s"], "job", "echo ran");
    assert_eq!((job.code(), job.line()), (0, "ran".to_owned()));
}

/// Starts `leasehold run OPTIONS NAME -- sh -c SCRIPT`.
fn run(url: &str, options: &[&str], name: &str, script: &str) -> Running {
    let mut command = Command::new("setsid");
    command.arg(env!("CARGO_BIN_EXE_leasehold")).env("LEASEHOLD_STORE", url);
    Running::start(command.arg("run").args(options).args([name, "--", "sh", "-c", script]))
}

/// The only line on stderr.
fn line(running: &Running) -> String {
    let lines = running.stderr();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines[0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_loss_of_data_one_of_three_machines_runs_the_job() {
    let mut server = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}?longest_lease=5s", server.address());
    told(&url, &["init", "--first-use"]);
    told(&url, &["run", "--lease", "5s", "job", "--", "true"]);
    // The quarantine begins with the next request.
    server.restart(Data::Lose).await.unwrap();
    let started = Instant::now();
    let options = ["--wait", "0s", "--lease", "5s", "--at-least", "5s"];
    let mut machines = [(); 3].map(|()| run(&url, &options, "job", "echo ran"));
    // As `--help` says of `--wait`: it begins when the quarantine has ended.
    let mut other = run(&url, &["--wait", "4s", "--lease", "5s"], "other", "echo ran");
    let mut codes = machines.each_mut().map(Running::code);
    codes.sort_unstable();
    let ran: Vec<_> = machines.iter().flat_map(Running::until_all_gone).collect();
    assert_eq!((codes, ran.len()), ([0, 75, 75], 1), "{ran:?}");
    assert_eq!((other.code(), other.line()), (0, "ran".to_owned()));
    assert!(started.elapsed() >= Duration::from_secs(5), "there was no quarantine");
    for machine in &machines {
        says(&machine.stderr()[0], &["quarantine", "waiting", "--quarantine-wait 0s"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wait_for_a_quarantine_has_an_end_an_option_and_ends_with_a_signal() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}?longest_lease=1h", server.address());
    let mut off = run(&url, &["--quarantine-wait", "0s"], "job", "echo ran");
    assert_eq!(off.code(), 75);
    says(&line(&off), &["not acquired", "quarantine", "init --first-use"]);

    let started = Instant::now();
    let mut short = run(&url, &["--quarantine-wait", "1s"], "job", "echo ran");
    assert_eq!(short.code(), 75);
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    let lines = short.stderr();
    assert_eq!(lines.len(), 2, "{lines:?}");
    says(&lines[0], &["quarantine", "waiting", "at most 1s"]);
    says(&lines[1], &["not acquired", "quarantine"]);

    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut waiting = run(&url, &[], "job", "echo ran");
        says(&waiting.error(), &["quarantine", "waiting", "at most 1h"]);
        waiting.signal(signal);
        assert_eq!(waiting.code(), 128 + signal.as_raw());
        assert!(waiting.until_all_gone().is_empty());
    }
    // `init --first-use` ends the quarantine, and with it the wait.
    let mut waiting = run(&url, &[], "job", "echo ran");
    says(&waiting.error(), &["quarantine", "waiting"]);
    told(&url, &["init", "--first-use"]);
    assert_eq!((waiting.code(), waiting.line()), (0, "ran".to_owned()));
}
