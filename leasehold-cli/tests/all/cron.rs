//! The cron jobs of docs/cli.md on several machines, with only the host and the job replaced.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use servers::{Postgres, PostgresOptions, Redis, RedisOptions, Server as _};

use crate::support::locks::Store;
use crate::support::{command, docs};

/// A machine with a home of its own, in which the command is installed.
struct Machine(PathBuf);

impl Machine {
    fn new(folder: &Store, name: &str) -> Self {
        let home = folder.beside(name);
        fs::create_dir_all(home.join(".cargo/bin")).unwrap();
        std::os::unix::fs::symlink(command(), home.join(".cargo/bin/leasehold")).unwrap();
        Self(home)
    }

    /// What cron does with the lines of a crontab: the first sets a variable, the second is run by
    /// a shell.
    fn cron(&self, lines: &str) -> Child {
        let (variable, line) = lines.trim().split_once('\n').unwrap();
        let (name, value) = variable.split_once('=').unwrap();
        let line = line.strip_prefix("0 2 * * *").unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("HOME", &self.0).env(name, value).stdin(Stdio::null());
        shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Three machines, a job on each, and what the docs say with this store.
struct Fleet {
    folder: Store,
    machines: Vec<Machine>,
    host: (&'static str, String),
}

impl Fleet {
    fn new(job: &str, host: (&'static str, String)) -> Self {
        let folder = Store::new();
        docs::program(&folder.beside("nightly"), job);
        let machines = ["one", "two", "three"].map(|name| Machine::new(&folder, name)).into();
        Self { folder, machines, host }
    }

    fn here(&self, text: &str) -> String {
        let text = text.replace(self.host.0, &self.host.1);
        text.replace("/usr/local/bin/nightly", self.folder.beside("nightly").to_str().unwrap())
    }

    /// Runs a command of the docs.
    fn told(&self, command: &str) -> Output {
        let folder = self.machines[0].0.join(".cargo/bin");
        let path = format!("{}:/usr/bin:/bin", folder.display());
        let command = self.here(command);
        Command::new("sh").args(["-c", &command]).env("PATH", path).output().unwrap()
    }

    /// Starts the job on all machines at once, and then, when it is over, on one whose clock is
    /// behind.
    fn night(&self, crontab: &str) -> Vec<Output> {
        let crontab = self.here(crontab);
        let at_once: Vec<_> = self.machines.iter().map(|machine| machine.cron(&crontab)).collect();
        let late = || self.machines[0].cron(&crontab);
        let ended = at_once.into_iter().map(|it| it.wait_with_output().unwrap());
        let mut ended: Vec<_> = ended.collect();
        ended.push(late().wait_with_output().unwrap());
        ended
    }
}

fn codes(ended: &[Output]) -> Vec<i32> {
    let mut codes: Vec<_> = ended.iter().map(|output| output.status.code().unwrap()).collect();
    codes.sort_unstable();
    codes
}

fn count(ended: &[Output], part: &str) -> usize {
    let texts = ended.iter().map(|it| [&it.stdout[..], &it.stderr[..]].concat());
    texts.filter(|text| String::from_utf8_lossy(text).contains(part)).count()
}

/// The lines of the first crontab of the page.
fn crontab() -> String {
    let (_, crontab) = docs::PAGE.split_once("```text\nLEASEHOLD_STORE=").unwrap();
    format!("LEASEHOLD_STORE={}", crontab.split("```").next().unwrap())
}

#[tokio::test]
async fn a_cron_job_on_several_machines_runs_once_and_again_if_it_fails() {
    let flushes = PostgresOptions::new().line("fsync = on");
    let postgres = Postgres::start(flushes).await.unwrap();
    let job = "echo \"attempt $LEASEHOLD_ATTEMPT\"; test $LEASEHOLD_ATTEMPT = 2";
    let fleet = Fleet::new(
        job,
        ("postgres://me@host/db", format!("postgres://postgres@{}/postgres", postgres.address())),
    );
    let made = fleet.told(docs::quoted("leasehold --store postgres:"));
    assert!(made.status.success(), "{made:?}");

    let ended = fleet.night(&crontab());
    assert_eq!(codes(&ended), [0, 0, 0, 1], "{ended:?}");
    for attempt in ["attempt 1", "attempt 2"] {
        assert_eq!(count(&ended, attempt), if attempt == "attempt 2" { 3 } else { 1 }, "{ended:?}");
    }
    assert_eq!(count(&ended, "leasehold: \"nightly\" is not due: "), 2, "{ended:?}");
    let shown = fleet.told("leasehold --store postgres://me@host/db record nightly");
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("done") && shown.contains("attempt    2"), "{shown}");
}

/// Where nothing remembers that the job has run.
#[tokio::test]
async fn a_minimum_hold_keeps_machines_with_other_clocks_from_a_second_run() {
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let host = ("redis://host", format!("redis://{}", redis.address()));
    let fleet = Fleet::new("echo \"ran with $LEASEHOLD_TOKEN\"", host);
    let made = fleet.told(docs::quoted("leasehold --store 'redis:"));
    assert!(made.status.success(), "{made:?}");
    let store = docs::quoted("redis://host?longest_lease=5m");
    let options = docs::quoted("--at-least 5m");
    let line = crontab().lines().nth(1).unwrap().replace("--once-per 24h --wait 1h", options);
    let ended = fleet.night(&format!("LEASEHOLD_STORE={store}\n{line}"));
    assert_eq!(codes(&ended), [0, 75, 75, 75], "{ended:?}");
    assert_eq!(count(&ended, "ran with "), 1, "{ended:?}");
    assert_eq!(count(&ended, "leasehold: lock \"nightly\" not"), 3, "{ended:?}");
}
