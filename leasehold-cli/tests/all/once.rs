//! `leasehold run --once-per`, and `leasehold record`.

use crate::support::locks::{Store, failure};
use crate::support::{Running, command, handle, pid, until, until_gone};
use rustix::process::Signal;
use serde_json::Value;

const DAILY: [&str; 2] = ["--once-per", "24h"];

/// Runs `leasehold run OPTIONS job -- sh -c SCRIPT` to its end, and returns its exit code, its
/// stdout and its own line on stderr.
fn daily(store: &Store, options: &[&str], script: &str) -> (i32, String, String) {
    let mut job = store.run(&[&DAILY, options].concat(), script);
    let code = job.code();
    (code, job.until_all_gone().join("\n"), told(&job))
}

/// leasehold's own lines; the shell may have words of its own.
fn told(job: &Running) -> String {
    let mut lines = job.stderr();
    lines.retain(|line| line.starts_with("leasehold:"));
    assert!(lines.len() < 2, "{lines:?}");
    lines.concat()
}

fn last_run(store: &Store) -> Value {
    store.json(&["record", "job"])["last_run"].take()
}

/// State, attempt and exit code.
fn outcome(store: &Store) -> (String, u64, Option<u64>) {
    let run = last_run(store);
    let state = run["state"].as_str().unwrap().to_owned();
    (state, run["attempt"].as_u64().unwrap(), run["exit_code"].as_u64())
}

fn is(state: &str, attempt: u64, exit_code: Option<u64>) -> (String, u64, Option<u64>) {
    (state.to_owned(), attempt, exit_code)
}

#[test]
fn a_job_runs_once_and_others_are_told_when_and_where() {
    let store = Store::new();
    assert_eq!(store.ok(&["record", "job"]), "job\n  record     none\n");
    let none = store.json(&["record", "job"]);
    assert_eq!((&none["last_run"], &none["record"]), (&Value::Null, &Value::Null));

    let script = "echo attempt $LEASEHOLD_ATTEMPT";
    let ran = daily(&store, &["--label", "machine one"], script);
    assert_eq!(ran, (0, "attempt 1".to_owned(), String::new()));
    assert!(store.json(&["inspect", "job"])["holder"].is_null(), "released");
    let run = last_run(&store);
    assert_eq!((&run["label"], &run["state"]), (&"machine one".into(), &"done".into()));
    let [began, ended, round] = ["began", "ended", "round"].map(|key| run[key].as_str().unwrap());
    assert!(began <= ended && began == round, "{run}");

    for (options, code) in [(&[][..], 0), (&["--done-exit-code", "9"], 9), (&["--wait", "9s"], 0)] {
        let (given, ran, line) = daily(&store, options, script);
        assert_eq!((given, &*ran), (code, ""));
        for part in ["\"job\" is not due", "\"machine one\" ran it", began, ended, "again at "] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
    let shown = store.ok(&["record", "job"]);
    for part in
        ["job\n  last run   done\n", began, "exit code  0\n", "\"machine one\"", "attempt    1"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    // Another name is another job, and a job without the option runs each time.
    let other = ["run", "--once-per", "24h", "other", "--", "echo", "ran"];
    assert_eq!(store.ok(&other), "ran\n");
    assert_eq!(
        store.ok(&["run", "job", "--", "sh", "-c", "echo \"[$LEASEHOLD_ATTEMPT]\""]),
        "[]\n"
    );
}

#[test]
fn a_line_of_a_log_in_json_says_it_too() {
    let store = Store::new();
    assert_eq!(daily(&store, &[], "true").0, 0);
    let args = ["--log-format", "json", "run", "--once-per", "24h", "job", "--", "true"];
    let output = store.act(&args);
    assert_eq!(output.status.code(), Some(0));
    let lines = String::from_utf8(output.stderr).unwrap();
    let line = lines.lines().find(|line| line.contains("not due")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["level"], "WARN");
}

#[test]
fn a_job_is_due_again_after_its_period() {
    let store = Store::new();
    let again = ["run", "--once-per", "1s", "job", "--", "echo", "ran"];
    assert_eq!(store.ok(&again), "ran\n");
    let first = last_run(&store);
    until("the next round", || {
        let output = store.act(&again);
        assert!(output.status.success());
        (output.stdout == b"ran\n").then_some(())
    });
    let second = last_run(&store);
    assert_eq!((&second["attempt"], &second["state"]), (&1.into(), &"done".into()));
    assert!(second["round"].as_str() >= first["round"].as_str(), "{first} {second}");
}

#[test]
fn a_failed_job_is_tried_again() {
    let store = Store::new();
    let script = "echo attempt $LEASEHOLD_ATTEMPT; exit 7";
    assert_eq!(daily(&store, &[], script), (7, "attempt 1".to_owned(), String::new()));
    assert_eq!(outcome(&store), is("failed", 1, Some(7)));
    let round = last_run(&store)["round"].clone();
    assert_eq!(daily(&store, &[], "kill -9 $$").0, 137);
    assert_eq!(outcome(&store), is("failed", 2, Some(137)));
    let missing = ["run", "--once-per", "24h", "job", "--", "no-such-command"];
    assert_eq!(failure(&store.act(&missing)).0, 127);
    assert_eq!(outcome(&store), is("failed", 3, Some(127)));
    let ran = daily(&store, &[], "echo attempt $LEASEHOLD_ATTEMPT");
    assert_eq!(ran, (0, "attempt 4".to_owned(), String::new()));
    assert_eq!(last_run(&store)["round"], round);
    let (code, ran, line) = daily(&store, &[], "echo ran");
    assert_eq!((code, &*ran), (0, ""));
    assert!(line.contains("(attempt 4)"), "{line}");
}

#[test]
fn a_job_that_was_told_to_end_has_failed() {
    let store = Store::new();
    let mut job = store.run(&DAILY, "echo ready; exec sleep 1000");
    assert_eq!(job.line(), "ready");
    assert_eq!(outcome(&store), is("started", 1, None));
    job.signal(Signal::TERM);
    assert_eq!(job.code(), 143);
    assert_eq!(outcome(&store), is("failed", 1, Some(143)));
}

#[test]
fn a_machine_that_dies_leaves_the_run_to_the_next() {
    let store = Store::new();
    let options = ["--once-per", "24h", "--lease", "4s"];
    let mut job = store.run(&options, "echo $$; exec sleep 1000");
    let sleeping = handle(pid(&job.line()));
    job.signal(Signal::KILL);
    until_gone(&sleeping);
    job.ended();
    assert_eq!(outcome(&store), is("started", 1, None));
    let (code, ran, line) = daily(&store, &["--at-most-once"], "echo ran");
    assert_eq!((code, &*ran), (0, ""));
    assert!(line.contains("began it at"), "{line}");
    // The lock is free when its lease is over.
    let ran = daily(&store, &["--wait", "60s"], "echo attempt $LEASEHOLD_ATTEMPT");
    assert_eq!(ran, (0, "attempt 2".to_owned(), String::new()));
}

#[test]
fn of_a_job_that_runs_at_most_once_a_failure_counts() {
    let store = Store::new();
    assert_eq!(daily(&store, &["--at-most-once"], "exit 3").0, 3);
    let (code, ran, line) = daily(&store, &["--at-most-once"], "echo ran");
    assert_eq!((code, &*ran), (0, ""));
    assert!(line.contains("it failed on"), "{line}");
}

#[test]
fn who_waits_is_a_standby() {
    let store = Store::new();
    let standby = ["--once-per", "24h", "--wait", "60s"];
    let script = "echo attempt $LEASEHOLD_ATTEMPT; read -r code; exit $code";
    let mut first = store.run(&DAILY, script);
    assert_eq!(first.line(), "attempt 1");
    let mut second = store.run(&standby, script);
    waits(&store, 1);
    let mut third = store.run(&standby, script);
    waits(&store, 2);
    first.say("4");
    assert_eq!(first.code(), 4);
    // The first that waits tries again, and the other learns that it need not.
    assert_eq!(second.line(), "attempt 2");
    second.say("0");
    assert_eq!((second.code(), third.code()), (0, 0));
    assert!(third.until_all_gone().is_empty(), "a job that has run was run again");
    assert!(told(&third).contains("not due"));
    assert!(store.json(&["inspect", "job"])["holder"].is_null(), "released");
}

/// Waits until so many processes wait for the lock.
fn waits(store: &Store, count: u64) {
    until("a queue entry", || (store.json(&["inspect", "job"])["waiting"] == count).then_some(()));
}

#[test]
fn a_held_lock_is_no_reason_to_fail_for_a_job_that_has_run() {
    let store = Store::new();
    let mut job = store.run(&DAILY, "echo ready; read -r _ || :");
    assert_eq!(job.line(), "ready");
    let (code, line) = failure(&store.act(&["run", "--once-per", "24h", "job", "--", "echo"]));
    assert_eq!(code, 75, "it runs now: {line}");
    assert_eq!(job.code(), 0);
    let mut holder = store.run(&[], "echo ready; read -r _ || :");
    assert_eq!(holder.line(), "ready");
    let (code, ran, line) = daily(&store, &[], "echo ran");
    assert_eq!((code, &*ran), (0, ""));
    assert!(line.contains("not due"), "{line}");
    assert_eq!(holder.code(), 0);
}

#[test]
fn a_job_whose_lock_was_lost_has_not_ended() {
    let store = Store::new();
    let mut job = store.run(&["--once-per", "24h", "--lease", "5s"], "echo ready; exec sleep 1000");
    assert_eq!(job.line(), "ready");
    store.ok(&["release", "--force", "job"]);
    assert_eq!(job.code(), 79);
    assert!(told(&job).contains("lock lost"));
    assert_eq!(outcome(&store), is("started", 1, None));
    // COMMAND ends before leasehold learns of the loss.
    let free = format!("{} --store {} release --force job", command(), store.url());
    let (code, _, line) = daily(&store, &[], &free);
    assert_eq!(code, 79);
    assert!(line.contains("exit code 0, which is not recorded"), "{line}");
    assert_eq!(outcome(&store), is("started", 2, None));
    assert_eq!(daily(&store, &[], "true").0, 0);
    assert_eq!(outcome(&store), is("done", 3, Some(0)));
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let store = Store::new();
    for (options, parts) in [
        (&["--once-per", "24h", "--permits", "2"][..], ["--once-per", "--permits"]),
        (&["--once-per", "24h", "--also", "b"], ["--once-per", "--also"]),
        (&["--once-per", "24h", "--shared"], ["--once-per", "--shared"]),
        (&["--once-per", "24h", "--at-least", "5s"], ["--once-per", "--at-least"]),
        (&["--once-per", "1ms"], ["'1ms'", "between 1s and 1year"]),
        (&["--once-per", "2years"], ["'2years'", "between 1s and 1year"]),
        (&["--once-per", "daily"], ["'daily'", "10s"]),
        (&["--at-most-once"], ["--once-per", "required"]),
        (&["--if-unknown", "run"], ["--once-per", "required"]),
        (&["--done-exit-code", "3"], ["--once-per", "required"]),
        (&["--once-per", "24h", "--if-unknown", "wait"], ["'wait'", "run, fail"]),
    ] {
        let args = [&["run"], options, &["job", "--", "true"]].concat();
        let (code, line) = failure(&store.act(&args));
        assert_eq!(code, 64, "{line}");
        for part in parts {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
    assert!(store.left().is_empty(), "the store was opened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_not_of_a_run_is_shown_and_left_alone() {
    let store = Store::new();
    let client = leasehold::connect(store.url()).await.unwrap();
    let day = std::time::Duration::from_secs(86_400);
    let guard = client.lock("job").acquire().await.unwrap();
    guard.write_record("line\n4711", day).await.unwrap();
    guard.release().await.unwrap();
    client.latch("parts", ["users", "orders"]).count_down("users").await.unwrap();
    let leader = client.election("chief").campaign().await.unwrap();
    leader.monitor().publish("10.0.0.1:80").await.unwrap();
    client.close().await;
    for (name, value) in
        [("parts", "-orders\\u{a}+users"), ("chief", "value      10.0.0.1:80 (11 bytes)")]
    {
        let shown = store.ok(&["record", name]);
        assert!(shown.contains(value), "{value} in {shown}");
    }
    let (code, line) = failure(&store.act(&["run", "--once-per", "24h", "job", "--", "echo"]));
    assert_eq!(code, 69);
    assert!(line.contains("9 bytes, is not that of a run"), "{line}");
    let shown = store.ok(&["record", "job"]);
    assert!(shown.contains("value      line\\u{a}4711 (9 bytes)"), "{shown}");
    let json = store.json(&["record", "job"]);
    assert_eq!((&json["last_run"], &json["record"]["value"]), (&Value::Null, &"line\n4711".into()));
    assert_eq!(json["record"]["bytes"], 9);
}
