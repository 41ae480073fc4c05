//! Drives the `supervise` example and watches real processes.
//!
//! Nothing here sleeps for a fixed time: tests wait for lines, for the end of a pipe (when the last
//! process that has it open has ended), and for processes to end. Each wait has a limit, so that a
//! broken build fails and does not hang.
// The tests of `leasehold-compare` use some of it, and those of `leasehold` the rest.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

pub mod docs;
pub mod locks;
pub mod terminal;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// No wait of a sound build comes near it, also on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The command of the package whose tests these are.
pub fn command() -> &'static str {
    let ours = option_env!("CARGO_BIN_EXE_leasehold");
    ours.or(option_env!("CARGO_BIN_EXE_leasehold-compare")).unwrap()
}

/// An example of this crate, which `cargo test` builds.
pub fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "build it first: cargo build -p leasehold-cli --examples");
    path
}

/// The exit code of a Rust program that has panicked.
const PANICKED: i32 = 101;

/// The example that drives the supervision without a lock.
pub fn supervise() -> PathBuf {
    example("supervise")
}

/// Runs its arguments in a new session with the default signals. If the tests run under `nohup`, or
/// behind `&` in a script, some signals are ignored, and a shell cannot undo that.
pub fn new_session() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT", "setsid"]);
    command
}

/// The example without a controlling terminal.
pub fn detached() -> Command {
    let mut command = new_session();
    command.arg(supervise());
    command
}

/// A running example with its output read in the background.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    /// Starts `command` with pipes for its standard streams.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let stderr = lines_of(child.stderr.take().unwrap());
        Self { stdin: child.stdin.take(), child, lines, stderr }
    }

    /// Starts `command` with a pipe for its stdout, and for its stderr one that is full and that
    /// nobody reads while the other value is there.
    pub fn start_unread(command: &mut Command) -> (Self, PipeReader) {
        let (unread, mut full) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&full, true).unwrap();
        while full.write(&[b'.'; 4096]).is_ok() {}
        while full.write(b".").is_ok() {}
        rustix::io::ioctl_fionbio(&full, false).unwrap();
        let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
        let mut child = command.stdin(stdin).stdout(stdout).stderr(full).spawn().unwrap();
        // The command keeps its streams, and so this end of the pipe.
        command.stderr(Stdio::null());
        let lines = lines_of(child.stdout.take().unwrap());
        let stderr = lines_of(std::io::empty());
        (Self { stdin: child.stdin.take(), child, lines, stderr }, unread)
    }

    /// Starts the example, without a terminal, on a shell script.
    pub fn script(options: &[&OsStr], script: &str) -> Self {
        Self::start(detached().args(options).args(["sh", "-c", script]))
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The next line on stdout.
    pub fn line(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("a line on stdout")
    }

    /// The next line on stderr.
    pub fn error(&self) -> String {
        self.stderr.recv_timeout(LIMIT).expect("a line on stderr")
    }

    /// Waits until every process that has our stdout is gone; returns their lines.
    pub fn until_all_gone(&self) -> Vec<String> {
        rest(&self.lines)
    }

    /// The same for stderr, which is closed by the same deaths.
    pub fn stderr(&self) -> Vec<String> {
        rest(&self.stderr)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for the example itself to end.
    pub fn ended(&mut self) -> ExitStatus {
        self.close_stdin();
        if !self.has_ended() {
            until_gone(&handle(self.pid()));
        }
        self.child.wait().unwrap()
    }

    /// Whether the example itself has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Its exit code; it must not have died of a signal or a panic.
    pub fn code(&mut self) -> i32 {
        let status = self.ended();
        assert_eq!(status.signal(), None, "leasehold itself died");
        let code = status.code().unwrap();
        assert_ne!(code, PANICKED, "{:?}", self.stderr());
        code
    }
}

impl Drop for Running {
    /// A failed test leaves nothing behind: the job reaper sees to the rest.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a stream, read in the background.
pub fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

fn rest(lines: &Receiver<String>) -> Vec<String> {
    let mut rest = Vec::new();
    loop {
        match lines.recv_timeout(LIMIT) {
            Ok(line) => rest.push(line),
            Err(RecvTimeoutError::Disconnected) => return rest,
            Err(RecvTimeoutError::Timeout) => panic!("processes live on; they wrote {rest:?}"),
        }
    }
}

/// A fifo in a directory of its own.
pub struct Fifo {
    _directory: tempfile::TempDir,
    pub path: PathBuf,
}

impl Fifo {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self { _directory: directory, path }
    }

    /// Opens for writing, which waits for the reader, writes nothing, and closes.
    pub fn poke(&self) {
        let path = self.path.clone();
        let (send, receive) = channel();
        thread::spawn(move || send.send(fs::write(path, "")));
        receive.recv_timeout(LIMIT).expect("a reader at the fifo").unwrap();
    }

    /// Waits for a writer, and for its text.
    pub fn read(&self) -> String {
        let path = self.path.clone();
        let (send, receive) = channel();
        thread::spawn(move || send.send(fs::read_to_string(path)));
        receive.recv_timeout(LIMIT).expect("a writer at the fifo").unwrap()
    }

    pub fn arg(&self) -> &OsStr {
        self.path.as_os_str()
    }
}

/// The fields of `/proc/<pid>/stat` from the third, the state, on.
pub fn stat(pid: Pid) -> Option<Vec<String>> {
    let path = Path::new("/proc").join(pid.as_raw_nonzero().to_string()).join("stat");
    let stat = fs::read_to_string(path).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// The children of a process.
pub fn children(parent: Pid) -> Vec<Pid> {
    with(1, parent)
}

/// The processes of a session, by its leader.
pub fn session(leader: Pid) -> Vec<Pid> {
    with(3, leader)
}

/// The processes that have this id in that field of their `stat`.
fn with(field: usize, id: Pid) -> Vec<Pid> {
    let id = id.as_raw_nonzero().to_string();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .filter(|&pid| stat(pid).is_some_and(|stat| stat[field] == id))
        .collect()
}

/// The only child of a process.
pub fn only_child(parent: Pid) -> Pid {
    let children = children(parent);
    assert_eq!(children.len(), 1, "children of {parent:?}: {children:?}");
    children[0]
}

/// Stands for one process, also when its id is used again.
pub fn handle(pid: Pid) -> OwnedFd {
    pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

/// Waits until the process behind a handle has ended.
pub fn until_gone(handle: &OwnedFd) {
    let limit = Timespec::try_from(LIMIT).unwrap();
    let ready = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&limit)).unwrap();
    assert_eq!(ready, 1, "the process lives on");
}

/// Waits until a process is stopped. Nobody but its parent is told, so this looks again and again.
pub fn until_stopped(pid: Pid) {
    let start = Instant::now();
    while stat(pid).unwrap()[0] != "T" {
        assert!(start.elapsed() < LIMIT, "the process is not stopped");
        thread::yield_now();
    }
}

/// A process id as a script has printed it.
pub fn pid(line: &str) -> Pid {
    Pid::from_raw(line.trim().parse().unwrap()).unwrap()
}

/// Polls until there is something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
