//! `run --once-per` on each store that keeps records: three machines with the same line, machines
//! that die and jobs that fail, and a store that restarts at noon. The nights follow each other
//! where the store's clock can be set.

use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;
use servers::{
    Clock, Data, Etcd, EtcdOptions, Mariadb, MariadbOptions, Postgres, PostgresOptions, Redis,
    RedisOptions, Server as _,
};

use crate::support::locks::Store;
use crate::support::{Running, command, new_session};

/// Says its attempt, and ends with the code that it is told.
const JOB: &str = "echo attempt $LEASEHOLD_ATTEMPT; read -r code || exec sleep 1000; exit $code";

/// What each machine runs at two o'clock.
const LINE: [&str; 8] = ["run", "--once-per", "24h", "--wait", "90s", "--lease", "5s", "nightly"];

const DAY: f64 = 86_400.0;

/// The machines of a store.
struct Machines {
    url: String,
}

impl Machines {
    fn leasehold(&self) -> Command {
        let mut leasehold = new_session();
        leasehold.arg(command()).env("LEASEHOLD_STORE", &self.url);
        leasehold
    }

    fn act(&self, args: &[&str]) -> Output {
        self.leasehold().args(args).output().unwrap()
    }

    fn start(&self, options: &[&str]) -> Running {
        let mut line = self.leasehold();
        line.args(LINE).args(options).args(["--", "sh", "-c", JOB]);
        Running::start(&mut line)
    }

    /// The job runs on this machine.
    fn runs(&self, job: &Running, attempt: u64) {
        assert_eq!(job.line(), format!("attempt {attempt}"));
        let last = self.last_run();
        assert_eq!((&last["state"], &last["attempt"]), (&"started".into(), &attempt.into()));
    }

    /// The job does not run on this machine, which exits with this code and says why.
    fn does_not_run(&self, mut job: Running, code: i32, why: &str) {
        assert_eq!(job.code(), code);
        assert_eq!(job.until_all_gone(), Vec::<String>::new());
        let lines = job.stderr().join("\n");
        assert!(lines.contains(why), "{why} in {lines}");
    }

    fn last_run(&self) -> Value {
        let output = self.act(&["record", "nightly", "--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["last_run"].take()
    }

    fn is_done(&self, attempt: u64) {
        let last = self.last_run();
        assert_eq!((&last["state"], &last["attempt"]), (&"done".into(), &attempt.into()), "{last}");
        self.does_not_run(self.start(&[]), 0, "not due");
    }

    /// One machine dies in the middle, and the job of another fails.
    fn night_with_faults(&self) {
        let first = self.start(&[]);
        self.runs(&first, 1);
        let mut second = self.start(&[]);
        first.signal(Signal::KILL);
        self.runs(&second, 2);
        let mut third = self.start(&[]);
        second.say("4");
        self.runs(&third, 3);
        let standby = self.start(&[]);
        third.say("0");
        assert_eq!((second.code(), third.code()), (4, 0));
        self.does_not_run(standby, 0, "not due");
        self.is_done(3);
    }

    fn quiet_night(&self) {
        let mut first = self.start(&[]);
        self.runs(&first, 1);
        let (second, third) = (self.start(&[]), self.start(&[]));
        first.say("0");
        assert_eq!(first.code(), 0);
        self.does_not_run(second, 0, "not due");
        self.does_not_run(third, 0, "not due");
        self.is_done(1);
    }

    fn init(&self, options: &[&str]) {
        let output = self.act(&[&["init"], options].concat());
        assert!(output.status.success(), "{output:?}");
    }
}

/// Steps the clock of the server, and leaves its uptime to it.
fn tomorrow(clock: &Clock) {
    clock.step(DAY).unwrap();
}

#[test]
fn nights_on_sqlite() {
    let store = Store::new();
    Machines { url: store.url() }.night_with_faults();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nights_on_postgres() {
    let clock = Clock::new().await.unwrap();
    let options = PostgresOptions::new().line("fsync = on").clock(&clock);
    let mut server = Postgres::start(options).await.unwrap();
    let url = format!("postgres://postgres@{}/postgres", server.address());
    let machines = Machines { url };
    machines.init(&[]);
    machines.night_with_faults();
    server.restart_cleanly().await.unwrap();
    machines.is_done(3);
    tomorrow(&clock);
    machines.quiet_night();
    // After a crash it may be a replica that was promoted too early, and lacks records. Today's
    // run is there.
    server.restart(Data::Keep).await.unwrap();
    machines.is_done(1);
    clock.step(DAY / 2.0).unwrap();
    server.restart(Data::Keep).await.unwrap();
    clock.step(DAY / 2.0).unwrap();
    machines.does_not_run(machines.start(&[]), 69, "init --records-complete");
    machines.init(&["--records-complete"]);
    machines.quiet_night();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nights_on_mariadb() {
    let clock = Clock::new().await.unwrap();
    let mut server = Mariadb::start(MariadbOptions::new().clock(&clock)).await.unwrap();
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
    let machines = Machines { url };
    machines.init(&[]);
    machines.night_with_faults();
    server.restart(Data::Keep).await.unwrap();
    machines.is_done(3);
    tomorrow(&clock);
    machines.quiet_night();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nights_on_etcd() {
    let mut server = Etcd::single(EtcdOptions::new()).await.unwrap();
    let machines = Machines { url: format!("etcd://{}", server.endpoints()[0]) };
    machines.init(&[]);
    machines.night_with_faults();
    server.member_mut(0).restart(Data::Keep).await.unwrap();
    server.wait_healthy().await.unwrap();
    machines.is_done(3);
}

/// A Redis on which nobody has locked, and with a short quarantine.
async fn redis(options: RedisOptions) -> (Redis, Clock, Machines) {
    let clock = Clock::new().await.unwrap();
    let server = Redis::start(options.clock(&clock)).await.unwrap();
    let machines = Machines { url: format!("redis://{}?longest_lease=5s", server.address()) };
    machines.init(&["--first-use", "--records-complete"]);
    (server, clock, machines)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nights_on_a_redis_that_flushes_each_write() {
    let options = RedisOptions::new().aof().line("appendfsync always");
    let (mut server, clock, machines) = redis(options).await;
    machines.night_with_faults();
    let whole = server.aof_written().unwrap();
    assert_eq!(server.lose_power(whole).await.unwrap(), whole);
    machines.is_done(3);
    tomorrow(&clock);
    machines.quiet_night();
}

/// What was lost is unknown, and what is left decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nights_on_a_redis_that_flushes_seldom() {
    let (mut server, clock, machines) = redis(RedisOptions::new().aof()).await;
    let refused = machines.act(&[&LINE[..], &["--", "true"]].concat());
    assert_eq!(refused.status.code(), Some(64));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("set appendonly yes, appendfsync always"), "{told}");
    let (accepted, run) = (["--if-unknown", "fail"], ["--if-unknown", "run"]);

    let mut first = machines.start(&accepted);
    machines.runs(&first, 1);
    let kept = server.aof_written().unwrap();
    first.say("0");
    assert_eq!(first.code(), 0);
    machines.does_not_run(machines.start(&accepted), 0, "not due");
    // The end of the run is lost, and its begin is left.
    server.lose_power(kept).await.unwrap();
    assert_eq!(machines.last_run()["state"], "started");
    machines.does_not_run(machines.start(&accepted), 69, "it is unknown whether");
    let mut again = machines.start(&run);
    machines.runs(&again, 2);
    again.say("0");
    assert_eq!(again.code(), 0);
    let lines = again.stderr().join("\n");
    assert!(lines.contains("it is unknown whether") && lines.contains("runs now"), "{lines}");

    // Nothing is lost, but the server cannot know: today's run is there and decides.
    server.lose_power(server.aof_written().unwrap()).await.unwrap();
    machines.does_not_run(machines.start(&accepted), 0, "not due");
    clock.step(DAY / 2.0).unwrap();
    server.lose_power(server.aof_written().unwrap()).await.unwrap();
    machines.does_not_run(machines.start(&accepted), 0, "not due");
    // Tomorrow, yesterday's run decides nothing: what ran since may be lost.
    clock.step(DAY / 2.0).unwrap();
    machines.does_not_run(machines.start(&accepted), 69, "it is unknown whether");
    // The doubt ends a period after a client has noticed the restart.
    tomorrow(&clock);
    let mut next = machines.start(&accepted);
    machines.runs(&next, 1);
    next.say("0");
    assert_eq!(next.code(), 0);
}

/// A Redis that has lost everything does not take that for "has never run".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_redis_does_not_know_whether_the_job_has_run() {
    let (mut server, _clock, machines) = redis(RedisOptions::new()).await;
    let accepted = ["--if-unknown", "fail"];
    let mut first = machines.start(&accepted);
    machines.runs(&first, 1);
    first.say("0");
    assert_eq!(first.code(), 0);
    server.restart(Data::Lose).await.unwrap();
    machines.does_not_run(machines.start(&accepted), 69, "it is unknown whether");
    assert_eq!(machines.last_run(), Value::Null);
}
