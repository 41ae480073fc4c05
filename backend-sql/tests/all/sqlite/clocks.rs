//! SQLite with processes whose clocks differ: they run in time namespaces, as containers may.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, too

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::support::{BOTH, SECOND, granted, request_for, sqlite::file};
use backend_sql::sqlite::SqliteBuilder;
use lock_core::{Guard, LockClient};
use tokio::time::timeout;

const LEASE: Duration = Duration::from_secs(1);
/// Many leases, for a loaded machine.
const WAIT: Duration = Duration::from_secs(40);
/// The environment variable that gives a child its part, strategy and file.
const PART: &str = "LEASEHOLD_CLOCKS_PART";

/// Whether this machine allows time namespaces. If not, these tests check nothing, and say so on
/// the real standard error: the captured output of a test that passes is not shown.
fn can() -> bool {
    let probe = in_namespace(1, "true").output();
    let why = match probe {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let line = format!("SKIPPED: no time namespace can be made here: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    false
}

/// A program whose clock is this many seconds ahead.
fn in_namespace(ahead: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--time", "--fork", "--kill-child", "--boottime", &ahead.to_string()]);
    command.arg(program);
    command
}

/// This program in another process, which plays a part.
struct Part {
    child: Child,
    says: BufReader<std::process::ChildStdout>,
}

impl Part {
    fn start(ahead: u32, deed: &str, strategy: impl std::fmt::Display, path: &Path) -> Self {
        let mut command = in_namespace(ahead, env::current_exe().unwrap());
        command.args([
            "--exact",
            "sqlite::clocks::a_part_in_another_process",
            "--ignored",
            "--nocapture",
        ]);
        command.env(PART, format!("{deed} {strategy} {}", path.display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Self { child, says }
    }

    /// Waits until the process prints this word, and returns the rest of the line.
    fn says(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.says.read_line(&mut line).unwrap() > 0, "it ended, and never said {word}");
            if let Some((_, rest)) = line.split_once(&format!("it is {word}")) {
                return rest.trim().to_owned();
            }
        }
    }

    fn go_on(&mut self) {
        drop(self.child.stdin.take());
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test by itself.
#[tokio::test]
#[ignore = "a part of the others"]
async fn a_part_in_another_process() {
    let part = env::var(PART).unwrap();
    let [deed, strategy, path] = part.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("{part}")
    };
    let store = SqliteBuilder::new(path).strategy(strategy.parse().unwrap()).build().await.unwrap();
    let client = LockClient::new(store.clone());
    match deed {
        "dying" => {
            granted(&store, &request_for("job", LEASE)).await;
            println!("it is held");
        }
        "holding" => {
            let guard = client.lock("job").lease(LEASE).acquire().await.unwrap();
            println!("it is held");
            let told = || std::io::stdin().read_line(&mut String::new()).unwrap();
            tokio::task::spawn_blocking(told).await.unwrap();
            println!("it is valid {}", guard.is_valid());
            guard.release().await.unwrap();
        }
        "waiting" => {
            println!("it is waiting");
            let guard = acquire(&client).await;
            println!("it is held");
            guard.release().await.unwrap();
        }
        other => panic!("{other}"),
    }
}

async fn acquire(client: &LockClient) -> Guard {
    let lock = client.lock("job").lease(WAIT / 2).acquire();
    timeout(WAIT, lock).await.expect("the holder that has died is waited for without end").unwrap()
}

/// A holder dies. Two clients wait for it; all three have different clocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_two_clocks_are_served_after_a_holder_of_a_third_has_died() {
    if !can() {
        return;
    }
    for strategy in BOTH {
        let (_folder, path) = file();
        Part::start(70_000, "dying", strategy, &path).says("held");
        let mut other = Part::start(30_000, "waiting", strategy, &path);
        other.says("waiting");
        let store = SqliteBuilder::new(&path).strategy(strategy).build().await.unwrap();
        acquire(&LockClient::new(store)).await.release().await.unwrap();
        tokio::task::spawn_blocking(move || other.says("held")).await.unwrap();
    }
}

/// A holder that lives and renews keeps its lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_another_clock_is_waited_for_while_it_renews() {
    if !can() {
        return;
    }
    for strategy in BOTH {
        let (_folder, path) = file();
        let mut holder = Part::start(70_000, "holding", strategy, &path);
        holder.says("held");
        let store = SqliteBuilder::new(&path).strategy(strategy).build().await.unwrap();
        let client = LockClient::new(store);
        let waiting = client.lock("job").lease(LEASE).wait(4 * LEASE).acquire().await;
        let token = waiting.as_ref().map(Guard::token);
        holder.go_on();
        // If the machine stopped the holder for a whole lease, it has lost the lock and says so.
        if holder.says("valid") == "true" {
            assert!(token.is_err(), "two holders");
        }
        drop(waiting);
        acquire(&client).await.release().await.unwrap();
    }
}

/// A container starts again, with another clock and the number of the old namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_of_a_namespace_that_has_ended_is_not_held_for_the_difference_of_clocks() {
    if !can() {
        return;
    }
    for strategy in BOTH {
        let (_folder, path) = file();
        let mut dying = Part::start(70_000, "dying", strategy, &path);
        dying.says("held");
        assert!(dying.child.wait().unwrap().success());
        let mut next = Part::start(30_000, "waiting", strategy, &path);
        let held = tokio::task::spawn_blocking(move || next.says("held"));
        timeout(WAIT + 20 * SECOND, held).await.unwrap().unwrap();
    }
}
