//! `list --watch`: on a terminal, and where there is none.

use std::ffi::OsStr;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::Running;
use crate::support::locks::{Store, failure};
use crate::support::terminal::Session;

#[test]
fn without_a_terminal_each_list_is_printed_behind_the_last() {
    let store = Store::new();
    let mut holder = store.run(&[], "echo up; read -r _ || :");
    assert_eq!(holder.line(), "up");
    let mut watch = Running::start(store.leasehold().args(["list", "--watch", "100ms"]));
    let until = |part: &str| while !watch.line().contains(part) {};
    for _ in 0..2 {
        until("HELD FOR");
        let line = watch.line();
        assert!(line.ends_with(" job") && line.contains("s  "), "{line}");
    }
    assert_eq!(holder.code(), 0);
    // The list of the moment after the release, and no more.
    loop {
        until("HELD FOR");
        if watch.line().is_empty() {
            break;
        }
    }
    watch.signal(Signal::INT);
    assert_eq!(watch.code(), 130);
}

#[test]
fn as_json_each_list_is_a_line() {
    let store = Store::new();
    let mut holder = store.run(&[], "echo up; read -r _ || :");
    assert_eq!(holder.line(), "up");
    let args = ["list", "--json", "--watch", "100ms"];
    let mut watch = Running::start(store.leasehold().args(args));
    let lists =
        [watch.line(), watch.line()].map(|line| serde_json::from_str::<Value>(&line).unwrap());
    for list in &lists {
        assert_eq!((list.as_array().unwrap().len(), &list[0]["name"]), (1, &"job".into()));
        assert!(list[0]["holder"]["remaining_ms"].is_u64(), "{list}");
    }
    let age = |list: &Value| list[0]["held_for_ms"].as_u64().unwrap();
    assert!(age(&lists[0]) <= age(&lists[1]), "{lists:?}");
    watch.signal(Signal::TERM);
    assert_eq!(watch.code(), 143);
    assert_eq!(holder.code(), 0);
}

/// A shell around it tells what it leaves of the terminal's modes.
fn on_a_terminal(store: &Store) -> Session {
    let command = crate::support::command();
    let script = format!(
        "trap : INT; '{command}' --store '{}' list --watch 100ms; echo code=$?.; stty -a; echo done.",
        store.url()
    );
    let [shell, flag, script] = ["sh", "-c", &script].map(OsStr::new);
    Session::start(&[shell, flag, script])
}

#[test]
fn on_a_terminal_the_list_is_drawn_anew_until_q() {
    let store = Store::new();
    let mut holder = store.run(&[], "echo up; read -r _ || :");
    assert_eq!(holder.line(), "up");
    let mut session = on_a_terminal(&store);
    session.until("\x1b[H");
    for _ in 0..2 {
        session.until(" job\x1b[K");
        // From the first line on, and what was below it is cleared.
        session.until("\x1b[J");
        session.until("\x1b[H");
    }
    assert_eq!(holder.code(), 0);
    while session.until("\x1b[J").contains(" job") {}
    // Another key does nothing, and is not shown.
    session.type_in("x");
    session.until("\x1b[J");
    session.type_in("q");
    assert!(!session.until("code=").contains('x'));
    session.until("0.");
    let modes = session.until("done.");
    assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
    assert!(session.ended().success());
}

#[test]
fn on_a_terminal_an_interrupt_ends_it_and_its_modes_are_as_before() {
    let store = Store::new();
    let mut session = on_a_terminal(&store);
    session.until("HELD FOR");
    session.type_in("\x03");
    session.until("code=130.");
    let modes = session.until("done.");
    assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
    session.ended();
}

#[test]
fn a_store_that_cannot_be_looked_at_and_a_wrong_interval_are_failures() {
    let store = Store::new();
    let (code, line) = failure(&store.act(&["list", "--watch", "1ms"]));
    assert_eq!(code, 64);
    assert!(line.contains("100ms and 1h"), "{line}");
    let nowhere = format!("sqlite:{}/none/locks.db", store.directory().display());
    assert_eq!(failure(&store.act(&["--store", &nowhere, "list", "--watch"])).0, 69);
}
