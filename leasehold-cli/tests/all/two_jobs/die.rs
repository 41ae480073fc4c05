//! leasehold, the job reaper, the store or the terminal goes away.

use std::ffi::OsStr;
use std::fs;

use rustix::process::{Signal, kill_process};
use servers::{Data, RedisOptions, Server as _};

use super::{LONG, Pair, STUBBORN, family, job_reaper};
use crate::support::terminal::Session;

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
    let mut first = pair.first(&["--lease", LONG], &family(STUBBORN));
    let mut second = pair.second();
    kill_process(job_reaper(&first), Signal::KILL).unwrap();
    pair.first_has_ended_before(&mut second, "job reaper killed");
    assert_eq!(first.code(), 137);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_restarts_with_its_data() {
    let mut pair = Pair::on(RedisOptions::new().aof()).await;
    // It ends when the file is there.
    let job = STUBBORN.replace("while :", r#"until [ -e "$BEATS.end" ]"#);
    // The lease outlives the restart.
    let mut first = pair.first(&["--lease", "9s"], &job);
    pair.server.restart(Data::Keep).await.unwrap();
    // It goes on, and is renewed.
    pair.until_renewed();
    pair.until_beating(pair.all_beats().len());
    // Ends the quarantine of the restart.
    pair.ok(&["init", "--first-use"]);
    let mut second = pair.second();
    fs::write(pair.beats().with_extension("end"), "").unwrap();
    pair.first_has_ended_before(&mut second, "store restarted");
    assert_eq!(first.code(), 0);
}

/// The quarantine holds the second job back until the first can have no lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_loses_its_data() {
    let mut pair = Pair::new().await;
    let mut first = pair.first(&[], &family(STUBBORN));
    pair.server.restart(Data::Lose).await.unwrap();
    assert_eq!(first.code(), 79);
    first.until_all_gone();
    let last = pair.last_beat();
    pair.ok(&["init", "--first-use"]);
    assert!(pair.second().line().parse::<f64>().unwrap() >= last);
}

/// The job may go on after a hang-up, and the lock is held as long as it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_terminal_hangs_up() {
    let pair = Pair::new().await;
    let job = STUBBORN.replace("while :", r#"until [ -e "$BEATS.end" ]"#);
    let words = pair.first_args(&["--lease", LONG], &job);
    let words: Vec<_> = words.iter().map(OsStr::new).collect();
    let mut session = Session::start(&words);
    pair.until_beating(0);
    session.hang_up();
    let mut second = pair.second();
    pair.until_beating(pair.all_beats().len());
    fs::write(pair.beats().with_extension("end"), "").unwrap();
    pair.first_has_ended_before(&mut second, "hang-up");
    assert_eq!(session.ended().code(), Some(0));
}
