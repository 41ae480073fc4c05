//! `--wait` on a terminal.

use std::ffi::OsStr;

use crate::support::command;
use crate::support::locks::Store;
use crate::support::terminal::Session;

#[test]
fn a_wait_on_a_terminal_shows_the_holder_and_is_erased_at_its_end() {
    let store = Store::new();
    let mut holder = store.run(&[], "echo up; read -r _");
    assert_eq!(holder.line(), "up");
    let url = store.url();
    let wait = ["--store", &url, "run", "--wait", "forever", "job", "--", "echo", "ran"];
    let words: Vec<_> = [command()].into_iter().chain(wait).map(OsStr::new).collect();
    let mut session = Session::start(&words);
    session.until(": \"job\" is held by ");
    let pid = holder.pid().as_raw_nonzero();
    session.until(&format!(":{pid}\""));
    session.until("\rleasehold: waiting for ");
    holder.say("");
    assert_eq!(holder.code(), 0);
    let shown = session.until("ran");
    assert!(shown.contains("\r\u{1b}[K"), "{shown:?}");
    assert_eq!(session.ended().code(), Some(0));
}

#[test]
fn elsewhere_nothing_of_it_is_shown() {
    let store = Store::new();
    let mut holder = store.run(&[], "echo up; read -r _");
    assert_eq!(holder.line(), "up");
    let mut waiter = store.run(&["--wait", "3s"], "true");
    assert_eq!(waiter.code(), 75);
    assert_eq!(waiter.stderr().len(), 1, "only the failure");
    holder.say("");
    assert_eq!(holder.code(), 0);
}
