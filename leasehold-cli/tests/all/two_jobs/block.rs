//! Nobody reads what leasehold or the job writes.

use std::ffi::OsStr;

use rustix::process::Signal;

use super::{LONG, Pair, STUBBORN, family, quoted};
use crate::support::terminal::Session;
use crate::support::{Running, new_session};

/// A warning, and the line about the loss, find no room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stderr_is_full_and_the_store_is_cut_off() {
    for format in ["text", "json"] {
        let pair = Pair::new().await;
        let options = ["--log-format", format];
        let mut command = new_session();
        command.args(pair.first_args(&options, &family(STUBBORN)));
        let (mut first, _unread) = Running::start_unread(&mut command);
        pair.until_beating(0);
        let mut second = pair.second();
        pair.cut_off().await;
        pair.first_has_ended_before(&mut second, &format!("stderr full, {format}"));
        assert_eq!(first.code(), 79);
    }
}

/// Writing fails, and the job goes on as long as the lock does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reader_of_stderr_has_ended_and_the_store_is_cut_off() {
    let pair = Pair::new().await;
    let script =
        format!("{} 2>&1 >/dev/null | :", quoted(&pair.first_args(&[], &family(STUBBORN))));
    let mut first = Running::start(new_session().args(["sh", "-c", &script]));
    pair.until_beating(0);
    let mut second = pair.second();
    pair.cut_off().await;
    pair.first_has_ended_before(&mut second, "reader of stderr ended");
    assert!(first.ended().success(), "the status of a pipeline is that of its last command");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stderr_is_full_and_leasehold_is_asked_to_end() {
    let pair = Pair::new().await;
    // Without other programs, of whose end the shell would write a line to stderr.
    let job = "trap 'echo asked; exit 3' TERM; echo up; while :; do read -r _; done";
    let mut command = new_session();
    command.args(pair.first_args(&["--lease", LONG, "--log-format", "json"], job));
    let (mut first, _unread) = Running::start_unread(&mut command);
    assert_eq!(first.line(), "up");
    first.signal(Signal::TERM);
    assert_eq!(first.until_all_gone(), ["asked"]);
    assert_eq!(first.code(), 3);
    assert_eq!(pair.second().code(), 0);
}

/// Ctrl-S stops what is written to a terminal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_types_ctrl_s_and_the_store_is_cut_off() {
    let pair = Pair::new().await;
    let words = pair.first_args(&[], &family(STUBBORN));
    let words: Vec<_> = words.iter().map(OsStr::new).collect();
    let mut session = Session::start(&words);
    pair.until_beating(0);
    let mut second = pair.second();
    session.type_in("\u{13}");
    pair.cut_off().await;
    pair.first_has_ended_before(&mut second, "Ctrl-S");
    assert_eq!(session.ended().code(), Some(79));
}

/// The line about it finds no room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stderr_is_full_and_command_cannot_be_run() {
    let pair = Pair::new().await;
    let mut command = pair.leasehold();
    let (mut first, _unread) =
        Running::start_unread(command.args(["run", "job", "--", "no-such-command"]));
    assert_eq!(first.code(), 127);
}
