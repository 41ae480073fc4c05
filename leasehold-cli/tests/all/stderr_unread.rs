//! Nobody reads stderr: a full pipe must not stop what leasehold does.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::locks::Store;
use crate::support::{LIMIT, handle, lines_of, until_gone};

/// The end of a line of the filler.
const FILLER: &str = "#\n";

/// A running leasehold whose stderr is a pipe of ours.
struct Unread {
    child: Child,
    stdout: Receiver<String>,
    /// Our own writing end, which fills the pipe.
    writer: PipeWriter,
    reader: PipeReader,
}

impl Unread {
    fn start(command: &mut Command, full: bool) -> Self {
        let (reader, writer) = pipe().unwrap();
        if full {
            fill(&writer);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(writer.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        // Its copy of our writing end.
        command.stderr(Stdio::null());
        let stdout = lines_of(child.stdout.take().unwrap());
        Self { child, stdout, writer, reader }
    }

    /// The next line on stdout.
    fn line(&self) -> String {
        self.stdout.recv_timeout(LIMIT).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end, while nobody reads.
    fn ended(&mut self) -> ExitStatus {
        until_gone(&handle(Pid::from_child(&self.child)));
        self.child.wait().unwrap()
    }

    /// Reads until nobody has the pipe open any more. Returns what is not filler.
    fn read(mut self) -> Vec<String> {
        let reader = self.reader.try_clone().unwrap();
        let writer = std::mem::replace(&mut self.writer, pipe().unwrap().1);
        drop(writer);
        drop(self.child.stdin.take());
        let lines = BufReader::new(reader).lines().map(Result::unwrap);
        let lines = lines.filter(|line| !line.ends_with(FILLER.trim_end())).collect();
        assert!(self.ended().success());
        lines
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes until the pipe is full. The flag that makes a write fail instead of wait is common to all
/// who share the pipe's end, so it is set for a moment only.
fn fill(mut pipe: &PipeWriter) {
    let flags = fcntl_getfl(pipe).unwrap();
    fcntl_setfl(pipe, flags | OFlags::NONBLOCK).unwrap();
    let begin = Instant::now();
    while pipe.write(FILLER.as_bytes()).is_ok() {
        assert!(begin.elapsed() < LIMIT, "the pipe takes everything");
    }
    fcntl_setfl(pipe, flags).unwrap();
}

/// `leasehold --log-format json`, which logs each event of a lock.
fn json(store: &Store, action: &str, options: &[&str]) -> Command {
    let mut command = store.leasehold();
    command.args(["--log-format", "json", action]).args(options);
    command
}

#[test]
fn a_job_starts_and_its_exit_code_is_passed_on() {
    let store = Store::new();
    let options = ["job", "--", "sh", "-c", "echo up; exit 7"];
    let mut running = Unread::start(&mut json(&store, "run", &options), true);
    assert_eq!(running.line(), "up");
    assert_eq!(running.ended().code(), Some(7));
}

#[test]
fn a_signal_ends_the_job_and_the_lock() {
    let store = Store::new();
    // The shell would write about its child's end, and wait for a reader itself.
    let script =
        "exec 2>/dev/null; trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.01; done";
    let command = &mut json(&store, "run", &["--lease", "5s", "job", "--", "sh", "-c", script]);
    let mut running = Unread::start(command, false);
    assert_eq!(running.line(), "up");
    fill(&running.writer);
    running.signal(Signal::TERM);
    assert_eq!(running.line(), "asked");
    assert_eq!(running.ended().code(), Some(3));
    assert!(store.json(&["inspect", "job"])["holder"].is_null(), "released");
}

#[test]
fn a_waiter_is_told_to_end() {
    let store = Store::new();
    let mut holder = store.run(&[], "echo up; read -r _");
    assert_eq!(holder.line(), "up");
    let command = &mut json(&store, "run", &["--wait", "forever", "job", "--", "true"]);
    let mut waiter = Unread::start(command, true);
    crate::support::until("a queue entry", || {
        (store.json(&["inspect", "job"])["waiting"] == 1).then_some(())
    });
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.ended().code(), Some(143));
    holder.say("");
    assert_eq!(holder.code(), 0);
}

#[test]
fn a_lock_taken_by_force_ends_the_job_and_the_hold() {
    let store = Store::new();
    let job = ["job", "--", "sh", "-c", "echo 1; exec sleep 1000"];
    for (action, options, code) in [("run", &job[..], 79), ("hold", &["job"], 79)] {
        let mut command = store.leasehold();
        command.args([action, "--lease", "5s"]).args(options);
        let mut running = Unread::start(&mut command, true);
        assert!(running.line().parse::<u64>().is_ok(), "{action}");
        store.ok(&["release", "--force", "job"]);
        assert_eq!(running.ended().code(), Some(code), "{action}");
    }
}

/// So many locks that their events do not fit into the queue.
#[test]
fn dropped_lines_are_counted_in_their_place() {
    let store = Store::new();
    let others: Vec<_> =
        (0..1100).flat_map(|number| ["--also".into(), number.to_string()]).collect();
    store.ok(&["init", "--longest-lease", "1h"]);
    let mut options: Vec<_> = others.iter().map(String::as_str).collect();
    options.extend(["--lease", "1h", "job"]);
    let running = Unread::start(&mut json(&store, "hold", &options), true);
    assert_eq!(running.line().split(' ').count(), 1101);
    let lines = running.read();
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let missing = |event: &Value| {
        let text = event["message"].as_str()?;
        text.strip_suffix(" lines of the log are missing here, because nobody read stderr")?
            .parse::<usize>()
            .ok()
    };
    let gap = events.iter().position(|event| missing(event).is_some()).expect("a gap");
    let acquired = events[..gap].iter().filter(|event| event["message"] == "acquired").count();
    assert!(acquired + missing(&events[gap]).unwrap() >= 1101, "{acquired}, {}", events[gap]);
    assert!(events[..gap].iter().all(|event| event["message"] != "released"));
}
