//! `--store-file`, and the formats of stderr.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;

use crate::support::Running;
use crate::support::locks::{Store, failure};

/// `leasehold` with a store in a file, and another in its environment.
fn with_file(store: &Store, text: &[u8]) -> Command {
    let file = store.beside("url");
    fs::write(&file, text).unwrap();
    let mut command = store.leasehold();
    command.env("LEASEHOLD_STORE", "sqlite:/nowhere/locks.db").arg("--store-file").arg(file);
    command
}

#[test]
fn a_file_names_the_store_and_goes_before_the_environment() {
    let store = Store::new();
    for end in ["", "\n", "\r\n"] {
        let mut command = with_file(&store, format!("{}{end}", store.url()).as_bytes());
        command.args(["run", "--pass-store", "job", "--", "sh", "-c", "echo $LEASEHOLD_STORE"]);
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), store.url(), "{output:?}");
    }
    // After the action, too.
    let file = store.beside("url");
    let args = ["list", "--store-file", file.to_str().unwrap()];
    assert!(store.act(&args).status.success());
}

#[test]
fn a_file_that_names_no_store_is_refused_by_its_name_and_not_by_what_is_in_it() {
    let store = Store::new();
    let long = [b"redis://:hunter2@h".as_slice(), &[b' '; 65_536]].concat();
    for (text, code, word) in [
        (&b""[..], 64, "empty"),
        (b" \n", 64, "empty"),
        (b"redis://:hunter2@h\nredis://:hunter2@i\n", 64, "one line"),
        (b"redis://:hunter2@\xff", 64, "UTF-8"),
        (&long, 64, "65536 bytes"),
        (b"gopher://:hunter2@h", 64, "gopher"),
    ] {
        for action in [&["list"][..], &["run", "job", "--", "echo", "ran"]] {
            let (given, line) = failure(&with_file(&store, text).args(action).output().unwrap());
            assert_eq!(given, code);
            assert!(line.contains(word) && !line.contains("hunter2"), "{line}");
            assert!(word == "gopher" || line.contains("/url\""), "{line}");
        }
    }
    let (code, line) = failure(&store.act(&["--store-file", "/nowhere/url", "list"]));
    assert_eq!(code, 64);
    assert!(line.contains("\"/nowhere/url\": No such file"), "{line}");
    // A file without an end.
    symlink("/dev/zero", store.beside("endless")).unwrap();
    let endless = store.beside("endless");
    let (code, line) = failure(&store.act(&["--store-file", endless.to_str().unwrap(), "list"]));
    assert_eq!(code, 64);
    assert!(line.contains("65536 bytes"), "{line}");
}

#[cfg(feature = "migrate")]
#[test]
fn a_migration_reads_its_stores_from_files() {
    let store = Store::new();
    for name in ["old", "new"] {
        let url = format!("sqlite:{}\n", store.beside(&format!("{name}.db")).display());
        fs::write(store.beside(name), url).unwrap();
    }
    let path = |name| store.beside(name).to_str().unwrap().to_owned();
    let (old, new) = (path("old"), path("new"));
    let args = ["migrate", "status", "--from-file", &old, "--to-file", &new];
    assert!(store.ok(&args).contains("migrate:old"));
}

/// The stderr of a job whose lock is lost: a warning of the library, and the line of the command.
fn lost(format: &str) -> Vec<String> {
    let store = Store::new();
    let mut command = store.leasehold();
    command.args(["--log-format", format, "run", "--lease", "5s", "job", "--"]);
    let mut holder = Running::start(command.args(["sh", "-c", "echo up; exec sleep 1000"]));
    assert_eq!(holder.line(), "up");
    store.ok(&["release", "--force", "job"]);
    assert!(holder.until_all_gone().is_empty());
    assert_eq!(holder.code(), 79);
    holder.stderr()
}

#[test]
fn warnings_are_lines_that_do_not_look_like_failures() {
    let lines = lost("text");
    let (ours, warnings): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.starts_with("leasehold:"));
    assert_eq!(ours.len(), 1, "{lines:?}");
    assert!(
        warnings.iter().any(|line| line.contains("WARN") && line.contains("lock lost")),
        "{lines:?}"
    );
    // The year of a timestamp.
    assert!(warnings.iter().all(|line| line.starts_with("20")), "{lines:?}");
}

/// The events of a lock, with the fields that docs/observability.md names.
#[test]
fn each_event_of_a_lock_is_an_object_where_json_is_asked_for() {
    let store = Store::new();
    let run = |script| {
        let output = store.act(&["--log-format", "json", "run", "job", "--", "sh", "-c", script]);
        let lines = String::from_utf8(output.stderr).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        (lines.collect::<Vec<_>>(), String::from_utf8(output.stdout).unwrap())
    };
    let (lines, token) = run("echo $LEASEHOLD_TOKEN");
    let messages: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["acquired", "released"]);
    for line in &lines {
        assert_eq!((&line["target"], &line["level"]), (&"leasehold".into(), &"DEBUG".into()));
        assert_eq!(
            (&line["name"], line["token"].to_string()),
            (&"job".into(), token.trim().into())
        );
        assert_eq!(line["owner"].as_str().unwrap().len(), 32);
    }
    assert!(lines[0]["waited_ms"].is_f64() && lines[0]["pushed"] == false, "{lines:?}");
    assert!(lines[1]["held_ms"].is_f64() && lines[1]["outcome"] == "released", "{lines:?}");
    let mut holder = store.run(&[], "echo up; read -r _ || :");
    assert_eq!(holder.line(), "up");
    let (lines, _) = run("true");
    assert_eq!(
        (&lines[0]["message"], &lines[0]["outcome"]),
        (&"not acquired".into(), &"busy".into())
    );
    assert_eq!(lines[1]["level"], "WARN");
    assert!(lines[1]["message"].as_str().unwrap().contains("not acquired: held by"), "{lines:?}");
    assert_eq!(holder.code(), 0);
}

#[test]
fn each_line_is_an_object_where_json_is_asked_for() {
    let lines = lost("json");
    let object = |line: &String| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {lines:?}"))
    };
    let lines: Vec<Value> = lines.iter().map(object).collect();
    let has = |level: &str, text: &str| {
        lines.iter().any(|line| {
            line["level"] == level && line["message"].as_str().is_some_and(|it| it.contains(text))
        })
    };
    assert!(has("WARN", "lock lost"), "{lines:?}");
    assert!(has("ERROR", "COMMAND was ended"), "{lines:?}");
    assert!(lines.iter().all(|line| line["timestamp"].is_string()), "{lines:?}");
}
