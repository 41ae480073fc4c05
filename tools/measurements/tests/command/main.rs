//! Stores measured side by side by the command. Apart from the other tests: it measures.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod browser;
#[path = "../../../../leasehold-cli/tests/all/support/mod.rs"]
mod support;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use servers::{Redis, RedisOptions, Server as _};
use support::Running;
use support::locks::{Store, failure};
use support::terminal::Session;

/// With a folder of its own for temporary files, in which the test sees files that are left.
fn compare(store: &Store, args: &[&str]) -> Command {
    let mut command = store.leasehold();
    command.env("TMPDIR", store.directory()).args(args);
    command
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap()
}

/// Results of the proof: one fault that nothing broke, and one with two holders and a loss.
fn proof() -> Value {
    let fault = |fault: &str, exclusion: &str, timeline: Value| {
        json!({
            "fault": fault,
            "cells": {"exclusion": exclusion, "tokens": "held"},
            "violations": [],
            "failed": null,
            "seeds": [1, 2],
            "asked": 52,
            "granted": 43,
            "lost": 1,
            "stale_refused": 2,
            "reported_late_ms": 3,
            "freed_after_ms": 1009,
            "timeline": timeline,
        })
    };
    let hold = |process: u32, token: u64, from: f64, until: f64| json!({"process": process, "token": token, "from": from, "until": until});
    let timeline = json!({
        "name": "proof 2 & more",
        "fault": [47.5, 54.25],
        "holds": [hold(0, 17, 0.0, 1023.5), hold(1, 19, 900.0, 1060.125)],
        "losses": [{"process": 0, "at": 1023.5}],
    });
    let faults = [fault("none", "held", Value::Null), fault("primary lost", "broken", timeline)];
    json!([{"store": "redis, quarantine off", "promised": {}, "faults": faults}])
}

/// One run over all stores that the machine has: its JSON, and its page in a browser.
#[test]
fn servers_are_started_measured_shown_and_gone() {
    let store = Store::new();
    let page = store.beside("page.html");
    let proof = store.beside("proof.json");
    std::fs::write(&proof, self::proof().to_string()).unwrap();
    let args = [
        "--local",
        "--for",
        "20s",
        "--json",
        "--page",
        page.to_str().unwrap(),
        "--proof",
        proof.to_str().unwrap(),
    ];
    let output = compare(&store, &args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();

    assert_eq!(report["absent"].as_array().unwrap().len(), 0, "{}", report["absent"]);
    let stores = report["stores"].as_array().unwrap();
    let names: Vec<_> = stores.iter().map(|store| text(store, "name")).collect();
    assert_eq!(
        names,
        ["memory", "sqlite", "redis", "redlock", "etcd", "zookeeper", "postgres", "mysql"]
    );
    for each in stores {
        let name = text(each, "name");
        let settings = each["settings"].as_array().unwrap();
        assert!(
            settings.iter().any(|setting| setting["name"] == "version"),
            "{name}: {settings:?}"
        );
        let figures = each["figures"].as_array().unwrap();
        let figure = |measure: &str| figures.iter().find(|it| it["measure"] == measure);
        for measure in ["ping", "write", "pair", "acquire", "uncontended", "death"] {
            // The nodes of a Redlock have ten milliseconds for an answer. If they miss that on a
            // busy machine, it is said.
            let missing = each["missing"].to_string();
            let skipped = name == "redlock" && missing.contains("no answer within 10ms");
            assert!(figure(measure).is_some() || skipped, "{name}: {measure}; {missing}");
        }
        if !matches!(name, "memory" | "sqlite") {
            let counted = &figure("uncontended").unwrap()["median"]["counted_per_operation"];
            assert!(counted.as_f64().unwrap() >= 1.0, "{name}: {counted}");
            for measure in ["killed", "cut-off"] {
                let made =
                    figure(measure).unwrap_or_else(|| panic!("{measure}: {}", each["missing"]));
                // The lease of a second, of which a third or so may be over; not at once.
                let micros = made["median"]["p50_us"].as_f64().unwrap();
                assert!((100_000.0..20_000_000.0).contains(&micros), "{name}: {measure} {micros}");
            }
        }
    }
    let servers =
        stores.iter().map(|each| text(each, "url")).filter(|url| url.contains("127.0.0.1"));
    assert_eq!(servers.count(), 6);
    let ratios = report["ratios"].as_array().unwrap();
    for (store, floor) in [
        ("sqlite", "an upsert"),
        ("redis", "SET NX PX"),
        ("redis", "mints"),
        ("redlock", "PING"),
        ("etcd", "cheapest write"),
        ("etcd", "two transactions"),
        ("postgres", "an upsert"),
        ("mysql", "an upsert"),
    ] {
        let of = |ratio: &&Value| ratio["store"] == store && text(ratio, "floor").contains(floor);
        assert!(ratios.iter().any(|ratio| of(&ratio)), "{store}: {floor}");
    }
    // The proof's results go through unchanged.
    assert_eq!(report["proof"].as_array().unwrap().len(), 1);

    browser::shows(&page, &report);
    store.has_only_beside(&["page.html", "proof.json"]);
}

/// However it ends, its servers and their folders go with it.
#[test]
fn servers_end_with_the_command() {
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let store = Store::new();
        let mut command = Command::new(support::command());
        command.env("TMPDIR", store.directory()).args(["--local", "--for", "600s"]);
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&running);
        // The file is made when all servers are up.
        support::until("the SQLite file", || {
            let files = std::fs::read_dir(store.directory()).unwrap();
            files.flatten().find(|file| file.path().join("locks.db").exists()).map(drop)
        });
        let servers = support::children(pid);
        // Six Redis, four others, and the process that removes their folders.
        assert!(servers.len() >= 11, "{servers:?}");
        let servers: Vec<_> = servers.into_iter().map(support::handle).collect();
        kill_process(pid, signal).unwrap();
        assert_eq!(running.wait().unwrap().code(), code);
        servers.iter().for_each(support::until_gone);
        // SIGKILL lets nobody remove the folder of the SQLite file.
        let left = if signal == Signal::KILL { 1 } else { 0 };
        support::until("empty folders", || (store.left().len() <= left).then_some(()));
    }
}

/// What is held is given back before it ends, which takes a while where the store hangs; who asks
/// again does not wait for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_while_a_store_hangs() {
    let (store, redis) = (Store::new(), Redis::start(RedisOptions::new()).await.unwrap());
    let url = format!("redis://{}", redis.address());
    let first_use = leasehold::Init::new().with_first_use(true);
    leasehold::open(&url).await.unwrap().init(&first_use).await.unwrap();
    let mut running = Running::start(&mut compare(&store, &[&url, "--for", "600s"]));
    // The process that is to be killed while it holds a lock.
    let holder = support::until("the holder", || support::children(running.pid()).pop());
    let holder = support::handle(holder);
    redis.pause().unwrap();
    running.signal(Signal::INT);
    // The measuring has stopped, and the closing begun.
    support::until_gone(&holder);
    // Another signal, to tell the exit codes apart.
    running.signal(Signal::TERM);
    assert_eq!(running.code(), 143);
    redis.resume().unwrap();
}

#[test]
fn what_is_not_installed_is_said() {
    let store = Store::new();
    let mut command = Command::new(support::command());
    command.env("TMPDIR", store.directory()).env("PATH", store.directory());
    command.args(["--local", "--for", "1s"]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
    for name in ["redis", "redlock", "etcd", "zookeeper", "postgres", "mysql"] {
        assert!(text.contains(&format!("{name}: not compared: ")), "{name} in {text}");
    }
    assert!(text.contains("(Debian's package redis-server brings it)"), "{text}");
    assert!(text.contains("memory: memory:") && text.contains("sqlite: sqlite:"), "{text}");
}

#[test]
fn bad_input_is_refused_in_one_line_that_says_what_is_allowed() {
    let store = Store::new();
    let folder = store.directory().to_str().unwrap();
    for (args, says) in [
        (&["--for", "10ms"][..], "1s and 3600s"),
        (&["nothing:"], "unknown scheme"),
        (&["memory:", "memory:"], "named twice"),
        (&["--proof", "/nowhere/proof.json"], "cannot read"),
        (&["--proof", "/etc/hostname"], "no results of verification"),
        // Before the measuring: these would take ten minutes otherwise.
        (&["--for", "600s", "--page", folder], "cannot write"),
        (&["--for", "600s", "--page", "/nowhere/page.html"], "cannot write"),
    ] {
        let (code, line) = failure(&store.act(args));
        assert_eq!(code, 64, "{line}");
        assert!(line.contains(says), "{line}");
    }
    // What could be written, and then had nothing to show, is as it was.
    let page = store.beside("page.html");
    let args = ["memory:", "memory:", "--page", page.to_str().unwrap()];
    assert_eq!(failure(&store.act(&args)).0, 64);
    assert!(!page.exists());
    std::fs::write(&page, "the last one").unwrap();
    assert_eq!(failure(&store.act(&args)).0, 64);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "the last one");
}

/// On a terminal it says how far it is and with what, and takes that away for the report.
#[test]
fn a_bar_shows_the_progress_on_a_terminal() {
    let store = Store::new();
    let command = [support::command(), "memory:", "--for", "3s"];
    let mut session = Session::start(&command.map(OsStr::new));
    session.until("0% memory: ");
    // A full block in UTF-8, of which the session makes a character a byte: so it moves.
    session.until("\u{e2}\u{96}\u{88}");
    session.until("% memory: ");
    session.until("leasehold ");
    let report = session.until("waiters woken by push");
    assert!(!report.contains("% memory: "), "{report}");
    assert!(session.ended().success());
    // And none elsewhere.
    let output = compare(&store, &["memory:", "--for", "1s"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// The check of the page notices errors.
#[test]
fn the_check_of_the_page_sees_what_is_wrong_with_it() {
    let store = Store::new();
    let page = store.beside("page.html");
    let sqlite = format!("sqlite:{}", store.beside("second.db").display());
    // Long enough for samples of all plots on a busy machine.
    let args = ["memory:", &sqlite, "--for", "8s", "--json", "--page", page.to_str().unwrap()];
    let output = compare(&store, &args).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    browser::shows(&page, &report);
    browser::fits_a_telephone(&page);
    let sound = std::fs::read_to_string(&page).unwrap();
    let seed = |with: &str| sound.replace("</body>", &format!("{with}</body>"));
    for (with, says) in [
        ("<script>console.error('seeded')</script>", "seeded"),
        ("<script>nothing.there()</script>", "nothing is not defined"),
    ] {
        std::fs::write(&page, seed(with)).unwrap();
        let console = browser::open(&page).console;
        assert!(console.iter().any(|line| line.contains(says)), "{says:?} not in {console:?}");
        assert!(refused(&page, &report), "{with} passed");
    }
    for (old, new) in
        [("data-p50-us=\"", "data-p50-us=\"1"), ("data-measure=\"acquire\"", ""), ("<svg", "<p")]
    {
        let broken = sound.replacen(old, new, 1);
        assert_ne!(broken, sound, "{old} is not on the page");
        std::fs::write(&page, broken).unwrap();
        assert!(refused(&page, &report), "{new:?} in place of {old:?} passed");
    }
    for (old, new) in [
        ("white-space: normal", ""),
        ("</style>", "svg text { font-size: 60px; }</style>"),
        ("<text ", "<g "),
    ] {
        let broken = sound.replace(old, new);
        assert_ne!(broken, sound, "{old} is not on the page");
        std::fs::write(&page, broken).unwrap();
        let checked = std::panic::catch_unwind(|| browser::fits_a_telephone(&page));
        assert!(checked.is_err(), "{new:?} in place of {old:?} passed");
    }
}

fn refused(page: &Path, report: &Value) -> bool {
    std::panic::catch_unwind(|| browser::shows(page, report)).is_err()
}
