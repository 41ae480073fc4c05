//! Two jobs of one lock: the first has ended when the second begins, whoever dies, stops or blocks.
//!
//! The cells of the table in docs/design/jobs.md. The first job and its helpers note the time of
//! each beat of theirs, and the second job notes when it begins. Both read the clock of the machine
//! in steps of 10 ms. Each test prints the margin between the last beat and the beginning.

mod block;
mod die;
mod grace;
mod hold;
mod start;
mod stop;
mod surroundings;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use servers::{Mode, Proxy, Redis, RedisOptions, Server as _};

use crate::support::{Running, new_session, only_child, until, until_stopped};

/// The lease of the first job.
const LEASE: &str = "3s";
/// The lease of a first job that ends by itself. It outlives a pause of the machine.
const LONG: &str = "15s";

/// Why a lock is lost that could not be renewed. It is the second if the machine let the holder
/// send no renewal.
const NOT_RENEWED: [&str; 2] =
    ["the store confirmed no renewal in time", "the lease expired before it was renewed"];

/// Beats until it is killed, and ignores the signals that ask it to end or to stop.
const STUBBORN: &str = r#"
    trap "" TERM HUP INT QUIT TSTP TTIN TTOU
    while :; do read -r now rest </proc/uptime; echo "$now" >>"$BEATS"; sleep 0.02; done
"#;

/// COMMAND and a process in a session of its own, which both run `script`.
fn family(script: &str) -> String {
    format!("setsid sh -c '{script}' & {script}")
}

/// A Redis, and a proxy before it for the first job.
struct Pair {
    server: Redis,
    proxy: Proxy,
    folder: tempfile::TempDir,
}

impl Pair {
    async fn new() -> Self {
        Self::on(RedisOptions::new()).await
    }

    async fn on(options: RedisOptions) -> Self {
        let server = Redis::start(options).await.unwrap();
        let proxy = Proxy::start(server.address()).await.unwrap();
        let pair = Self { server, proxy, folder: tempfile::tempdir().unwrap() };
        pair.ok(&["init", "--first-use"]);
        pair
    }

    fn beats(&self) -> PathBuf {
        self.folder.path().join("beats")
    }

    /// `leasehold` on the server, without a terminal.
    fn leasehold(&self) -> Command {
        leasehold_at(self.server.address())
    }

    /// The same through the proxy.
    fn by_proxy(&self) -> Command {
        leasehold_at(self.proxy.address())
    }

    /// Does an action on the server to its end.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.leasehold().args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The words that start the first job, a shell script. It reaches the store through the proxy.
    /// `--lease` must be the first option.
    fn first_args(&self, options: &[&str], job: &str) -> Vec<String> {
        let (lease, options) = match options {
            ["--lease", lease, rest @ ..] => (Some(*lease), rest),
            _ => (None, options),
        };
        let store = format!("redis://{}", self.proxy.address());
        let words = ["env", &format!("LEASEHOLD_STORE={store}")].map(str::to_owned);
        let beats = format!("BEATS={}", self.beats().display());
        words
            .into_iter()
            .chain([beats, crate::support::command().to_owned(), "run".to_owned()])
            .chain([format!("--lease={}", lease.unwrap_or(LEASE))])
            .chain(options.iter().map(|&option| option.to_owned()))
            .chain(["job", "--", "sh", "-c", job].map(str::to_owned))
            .collect()
    }

    /// Starts the first job, without a terminal, and waits for its first beats.
    fn first(&self, options: &[&str], job: &str) -> Running {
        let running = Running::start(new_session().args(self.first_args(options, job)));
        self.until_beating(0);
        running
    }

    /// Waits for beats after the first `seen`.
    fn until_beating(&self, seen: usize) {
        until("beats", || (self.all_beats().len() > seen + 2).then_some(()));
    }

    fn all_beats(&self) -> Vec<f64> {
        let text = fs::read_to_string(self.beats()).unwrap_or_default();
        // A process may have been killed in the middle of a line.
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Starts the second job, which waits for the lock, notes when it begins, and runs for a while.
    fn second(&self) -> Running {
        let mut command = self.leasehold();
        command.args(["run", "--wait", "60s", "--lease", LEASE, "job", "--", "sh", "-c"]);
        Running::start(command.arg("read -r now rest </proc/uptime; echo $now; sleep 1"))
    }

    /// Waits for the second job, and checks that the first had its last beat before.
    fn first_has_ended_before(&self, second: &mut Running, what: &str) {
        let begins: f64 = second.line().parse().unwrap();
        assert_eq!(second.code(), 0);
        let last = self.last_beat();
        println!("{what}: the first ended {:.2} s before the second began", begins - last);
        assert!(last <= begins, "{what}: a beat at {last}, the second began at {begins}");
    }

    fn last_beat(&self) -> f64 {
        self.all_beats().into_iter().fold(0.0, f64::max)
    }

    /// The rest of the lease that the store keeps for the holder, in milliseconds.
    fn remaining(&self) -> u64 {
        let state = self.ok(&["inspect", "job", "--json"]);
        let state: serde_json::Value = serde_json::from_str(&state).unwrap();
        state["holder"]["remaining_ms"].as_u64().unwrap_or_default()
    }

    /// Waits for a renewal: the rest of the lease grows.
    fn until_renewed(&self) {
        let mut last = u64::MAX;
        until("a renewal", || {
            let now = self.remaining();
            (now > std::mem::replace(&mut last, now)).then_some(())
        });
    }

    /// Cuts the first job off: nothing gets through any more, and nobody is told.
    async fn cut_off(&self) {
        self.proxy.set(Mode::BlackHole).await.unwrap();
    }
}

fn leasehold_at(address: std::net::SocketAddr) -> Command {
    let mut command = new_session();
    command.arg(crate::support::command());
    command.env("LEASEHOLD_STORE", format!("redis://{address}"));
    command
}

/// The words of a command, in quotes for a shell.
fn quoted(words: &[String]) -> String {
    let quoted: Vec<_> =
        words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    quoted.join(" ")
}

/// The job reaper of a running leasehold.
fn job_reaper(leasehold: &Running) -> Pid {
    only_child(leasehold.pid())
}

fn stop(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    until_stopped(process);
}
