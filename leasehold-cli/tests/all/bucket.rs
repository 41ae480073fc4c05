//! Jobs whose locks are in a bucket, where no clock but the looker's own ends a lease.

use rustix::process::Signal;
use servers::S3;

use crate::support::Running;
use crate::support::locks::Store;

const HELD: &str = "is held; looking for at most";

/// Starts `leasehold --store URL run OPTIONS job -- sh -c SCRIPT`.
fn run(server: &S3, options: &[&str], script: &str) -> Running {
    run_on(server, options, "job", script)
}

fn run_on(server: &S3, options: &[&str], name: &str, script: &str) -> Running {
    let mut command = Store::new().leasehold();
    command.args(["--store", &server.store_url(), "run"]).args(options);
    Running::start(command.args([name, "--", "sh", "-c", script]))
}

/// Each call of cron is a new process, which has seen nothing of the holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cron_runs_the_job_of_a_killed_holder_again() {
    let server = S3::start().await.unwrap();
    let mut killed = run(&server, &["--lease", "3s"], "echo $LEASEHOLD_TOKEN; sleep 1000");
    let token: u64 = killed.line().parse().unwrap();
    killed.signal(Signal::KILL);
    assert!(!killed.ended().success());
    let mut next = run(&server, &["--wait", "0s"], "echo $LEASEHOLD_TOKEN");
    let held = next.error();
    assert!(held.contains(HELD), "{held}");
    assert!(next.line().parse::<u64>().unwrap() > token);
    assert_eq!(next.code(), 0);
    // It has released the lock, so nobody looks.
    let mut last = run(&server, &["--wait", "0s"], "echo ran");
    assert_eq!((last.line(), last.code()), ("ran".to_owned(), 0));
    assert_eq!(last.stderr(), [""; 0]);
}

/// A wait that is shorter than a lease, permits, and several locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_holder_is_found_behind_every_option() {
    let server = S3::start().await.unwrap();
    for (first, name, options) in [
        (&["--lease", "3s"][..], "job", ["--wait", "1s"]),
        (&["--lease", "3s", "--permits", "2"], "job", ["--permits", "2"]),
        (&["--lease", "3s"], "other", ["--also", "other"]),
    ] {
        let mut alive =
            run(&server, &["--lease", "30s", "--permits", "2"], "echo runs; read -r end");
        assert_eq!(alive.line(), "runs");
        let mut killed = run_on(&server, first, name, "echo runs; sleep 1000");
        assert_eq!(killed.line(), "runs");
        killed.signal(Signal::KILL);
        assert!(!killed.ended().success());
        let mut next = run(&server, &options, "echo ran");
        assert_eq!((next.line(), next.code()), ("ran".to_owned(), 0), "{options:?}");
        alive.say("end");
        assert_eq!(alive.code(), 0);
    }
}

/// A holder that renews is alive. One that releases was: the job has run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_runs_or_has_just_ended_is_not_run_again() {
    let server = S3::start().await.unwrap();
    let mut renews = run(&server, &["--lease", "3s"], "echo runs; read -r end");
    assert_eq!(renews.line(), "runs");
    let mut second = run(&server, &["--wait", "0s"], "echo ran");
    assert_eq!(second.code(), 75);
    assert_eq!(second.until_all_gone(), [""; 0]);
    renews.say("end");
    assert_eq!(renews.code(), 0);

    let mut ends = run(&server, &["--lease", "30s"], "echo runs; read -r end");
    assert_eq!(ends.line(), "runs");
    let mut second = run(&server, &["--wait", "0s"], "echo ran");
    assert!(second.error().contains(HELD));
    ends.say("end");
    assert_eq!(ends.code(), 0);
    assert_eq!(second.code(), 75);
    assert_eq!(second.until_all_gone(), [""; 0]);
}

/// A job that ends early keeps its lock for a while, so that a machine whose clock is late does not
/// run it again. A later call that looks for long enough frees the lock, and does not run the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rest_of_a_minimum_hold_is_waited_out_and_the_job_is_not_run_again() {
    let server = S3::start().await.unwrap();
    let hold = ["--lease", "5s", "--at-least", "5s", "--wait", "0s"];
    let mut first = run(&server, &hold, "echo ran");
    assert_eq!((first.line(), first.code()), ("ran".to_owned(), 0));
    let mut second = run(&server, &hold, "echo ran");
    assert!(second.error().contains(HELD));
    assert_eq!(second.code(), 75);
    assert_eq!(second.until_all_gone(), [""; 0]);
    let mut next = run(&server, &hold, "echo ran");
    assert_eq!((next.line(), next.code()), ("ran".to_owned(), 0));
    assert_eq!(next.stderr(), [""; 0]);
}
