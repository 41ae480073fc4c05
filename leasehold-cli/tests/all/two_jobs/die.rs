//! leasehold, the job reaper or COMMAND dies.

use rustix::process::{Signal, kill_process};

use super::{Pair, STUBBORN, family, job_reaper};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leasehold_is_killed() {
    let pair = Pair::new().await;
    let mut first = pair.first(&[], &family(STUBBORN));
    let mut second = pair.second();
    first.signal(Signal::KILL);
    pair.first_has_ended_before(&mut second, "leasehold killed");
    assert!(!first.ended().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_reaper_is_killed() {
    let pair = Pair::new().await;
    let mut first = pair.first(&[], &family(STUBBORN));
    let mut second = pair.second();
    kill_process(job_reaper(&first), Signal::KILL).unwrap();
    pair.first_has_ended_before(&mut second, "job reaper killed");
    assert_eq!(first.code(), 137);
}
