//! The cron jobs of docs/cli.md on several machines, with only the host and the job replaced.

use std::process::{Child, Output, Stdio};

use servers::{Postgres, PostgresOptions, Redis, RedisOptions, Server as _};

use crate::support::docs::{self, Shell};

/// What cron does with the lines of a crontab: the first sets a variable, the second is run by a
/// shell.
fn cron(machine: &Shell, lines: &str) -> Child {
    let (variable, line) = lines.trim().split_once('\n').unwrap();
    let (name, value) = variable.split_once('=').unwrap();
    let line = line.strip_prefix("0 2 * * *").unwrap();
    assert!(!line.contains('%'), "cron takes a % for the end of the line");
    let mut shell = machine.command("sh");
    // Where cron finds programs. It does not look into the home of a user.
    shell.args(["-c", line]).env(name, value).env("PATH", "/usr/bin:/bin");
    shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Three machines, and what the docs say with this job and this store.
fn machines(job: &str, host: &str, url: &str) -> [Shell; 3] {
    [(); 3].map(|()| {
        let machine = Shell::new().with(host, url);
        let program = machine.program("nightly", job);
        machine.with("/usr/local/bin/nightly", program.to_str().unwrap())
    })
}

/// Starts the job on all machines at once, and then, when it is over, on one whose clock is behind.
fn night(machines: &[Shell], crontab: &str) -> Vec<Output> {
    let start = |machine: &Shell| cron(machine, &machine.here(crontab));
    let at_once: Vec<_> = machines.iter().map(start).collect();
    let ended = at_once.into_iter().map(|it| it.wait_with_output().unwrap());
    let mut ended: Vec<_> = ended.collect();
    ended.push(start(&machines[0]).wait_with_output().unwrap());
    ended
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

fn crontab() -> String {
    docs::block("docs/cli.md", "LEASEHOLD_STORE=")
}

#[tokio::test]
async fn a_cron_job_on_several_machines_runs_once_and_again_if_it_fails() {
    let flushes = PostgresOptions::new().line("fsync = on");
    let postgres = Postgres::start(flushes).await.unwrap();
    let job = "echo \"attempt $LEASEHOLD_ATTEMPT\"; test $LEASEHOLD_ATTEMPT = 2";
    let url = format!("postgres://postgres@{}/postgres", postgres.address());
    let machines = machines(job, "postgres://me@host/db", &url);
    machines[0].ok(docs::quoted("leasehold --store postgres:"));

    let ended = night(&machines, &crontab());
    assert_eq!(codes(&ended), [0, 0, 0, 1], "{ended:?}");
    for attempt in ["attempt 1", "attempt 2"] {
        assert_eq!(count(&ended, attempt), if attempt == "attempt 2" { 3 } else { 1 }, "{ended:?}");
    }
    assert_eq!(count(&ended, "leasehold: \"nightly\" is not due: "), 2, "{ended:?}");
    let shown = machines[0].ok("leasehold --store postgres://me@host/db record nightly");
    assert!(shown.contains("done") && shown.contains("attempt    2"), "{shown}");
}

/// Where nothing remembers that the job has run.
#[tokio::test]
async fn a_minimum_hold_keeps_machines_with_other_clocks_from_a_second_run() {
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}", redis.address());
    let machines = machines("echo \"ran with $LEASEHOLD_TOKEN\"", "redis://host", &url);
    machines[0].ok(docs::quoted("leasehold --store 'redis:"));
    let store = docs::quoted("redis://host?longest_lease=5m");
    let options = docs::quoted("--at-least 5m");
    let line = crontab().lines().nth(1).unwrap().replace("--once-per 24h --wait 1h", options);
    let ended = night(&machines, &format!("LEASEHOLD_STORE={store}\n{line}"));
    assert_eq!(codes(&ended), [0, 75, 75, 75], "{ended:?}");
    assert_eq!(count(&ended, "ran with "), 1, "{ended:?}");
    assert_eq!(count(&ended, "leasehold: lock \"nightly\" not"), 3, "{ended:?}");
}
