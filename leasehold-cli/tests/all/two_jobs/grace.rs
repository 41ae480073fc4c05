//! How long the first job may wind down.

use std::fs;

use rustix::process::Signal;
use servers::Mode;

use super::{LONG, NOT_RENEWED, Pair, STUBBORN, family};
use crate::support::{Running, new_session};

/// On SIGTERM it notes that, and goes on.
const SLOW: &str = r#"
    trap "echo asked" TERM
    while :; do read -r now rest </proc/uptime; echo "$now" >>"$BEATS"; sleep 0.02; done
"#;

/// The grace time lies before the end of the validity, whatever it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_is_cut_off() {
    for (options, job) in [
        (&[][..], family(STUBBORN)),
        (&[], SLOW.to_owned()),
        (&["--loss-grace", "0s"], SLOW.to_owned()),
        (&["--loss-grace", "980ms"], SLOW.to_owned()),
    ] {
        let pair = Pair::new().await;
        let mut first = pair.first(options, &job);
        let mut second = pair.second();
        pair.cut_off().await;
        pair.first_has_ended_before(&mut second, &format!("store cut off, {options:?}"));
        // It does not try to release what is lost: that would last for 10 s.
        assert!(first.has_ended(), "the job has ended, and leasehold has not");
        assert_eq!(first.code(), 79);
        first.until_all_gone();
        let said = NOT_RENEWED.map(|why| format!("leasehold: lock lost: {why}; COMMAND was ended"));
        let last = first.stderr().pop().unwrap();
        assert!(said.contains(&last), "{last}");
    }
}

/// It is continued, or it could not act on SIGTERM.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_is_cut_off_and_command_has_stopped() {
    let pair = Pair::new().await;
    let job = format!("trap 'echo asked; exit' TERM; setsid sh -c '{STUBBORN}' & kill -STOP $$");
    // The grace time is long, so that a busy machine runs the trap within it.
    let mut first = pair.first(&["--lease", "15s", "--loss-grace", "4900ms"], &job);
    let mut second = pair.second();
    pair.cut_off().await;
    pair.first_has_ended_before(&mut second, "COMMAND stopped, store cut off");
    assert_eq!(first.until_all_gone(), ["asked"]);
    assert_eq!(first.code(), 79);
}

/// The lock is lost all the same: COMMAND was asked to end. It is released when COMMAND has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_comes_after_sigterm_does_not_call_it_back() {
    let pair = Pair::new().await;
    // The lease is long, so that the second job begins because of a release.
    let job = "trap 'echo asked; read -r _; exit 3' TERM; echo up; while :; do sleep 0.02; done";
    let options = ["--lease", "15s", "--loss-grace", "4900ms"];
    let mut first = Running::start(new_session().args(pair.first_args(&options, job)));
    assert_eq!(first.line(), "up");
    pair.cut_off().await;
    assert_eq!(first.line(), "asked");
    pair.proxy.set(Mode::Pass).await.unwrap();
    pair.until_renewed();
    first.say("");
    assert_eq!(first.code(), 79);
    assert!(pair.ok(&["inspect", "job"]).contains("free"));
}

/// A shutdown is no loss: the lock is held while the job winds down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_keeps_the_lock_while_the_job_winds_down() {
    let pair = Pair::new().await;
    // It winds down until the file is there.
    let job = SLOW.replace("while :", r#"until [ -e "$BEATS.end" ]"#);
    let mut first = pair.first(&["--lease", LONG], &job);
    let mut second = pair.second();
    first.signal(Signal::TERM);
    assert_eq!(first.line(), "asked");
    pair.until_beating(pair.all_beats().len());
    fs::write(pair.beats().with_extension("end"), "").unwrap();
    pair.first_has_ended_before(&mut second, "shutdown");
    assert_eq!(first.code(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_with_its_grace() {
    let pair = Pair::new().await;
    let mut first = pair.first(&["--lease", LONG, "--grace", "300ms"], &family(STUBBORN));
    let mut second = pair.second();
    first.signal(Signal::TERM);
    pair.first_has_ended_before(&mut second, "shutdown with --grace");
    assert_eq!(first.code(), 137);
    assert!(first.stderr().is_empty());
}
