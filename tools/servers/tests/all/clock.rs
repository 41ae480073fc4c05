//! The clock shim, under servers and under a Rust program.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};
use servers::{Clock, Offsets, Process, Spec, programs, wait::until};

const SOON: Duration = Duration::from_secs(30);
const HELPER: &str = "KIT_TEST_HELPER";

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// A program that counts on `Instant` (CLOCK_MONOTONIC) does not notice its suspend; one that
/// counts on CLOCK_BOOTTIME does. The program is this test, run in another process.
#[tokio::test]
async fn monotonic_stands_still_while_suspended() {
    if std::env::var_os(HELPER).is_some() {
        return tell_clocks();
    }
    let clock = Clock::new().await.unwrap();
    let folder = Process::folder_for(None).unwrap();
    let questions = folder.path().join("questions");
    rustix::fs::mkfifoat(rustix::fs::CWD, &questions, 0o600.into()).unwrap();
    let me = std::env::current_exe().unwrap();
    let spec = Spec::new("a clock reader", "sh")
        .args(["-c", r#"exec "$0" --exact "$1" --nocapture < "$2""#, me.to_str().unwrap()])
        .args(["clock::monotonic_stands_still_while_suspended", questions.to_str().unwrap()])
        .env(HELPER, "1")
        .envs(clock.env());
    let process = Process::start(spec, folder).unwrap();
    let open =
        tokio::task::spawn_blocking(move || std::fs::File::options().write(true).open(questions));
    let mut pipe = open.await.unwrap().unwrap();
    let mut asked = 0;
    let mut ask = async |process: &Process| {
        writeln!(pipe, "?").unwrap();
        asked += 1;
        until("the answer", SOON, || async {
            let log = process.log_tail();
            let answers = log.lines().filter_map(|line| line.split_once("CLOCKS ").map(|x| x.1));
            Ok(answers.map(seconds).nth(asked - 1))
        })
        .await
        .unwrap()
    };
    let start = Instant::now();
    let before = ask(&process).await;
    let pause = Duration::from_millis(700);
    clock.suspend(&process, tokio::time::sleep(pause)).await.unwrap();
    let after = ask(&process).await;
    let whole = start.elapsed().as_secs_f64();

    let [monotonic, boottime, realtime] = std::array::from_fn(|i| after[i] - before[i]);
    let pause = pause.as_secs_f64();
    // However slow the machine is, the clocks differ by at least the pause.
    assert!(boottime >= pause && realtime >= pause && boottime <= whole + pause);
    assert!(monotonic < boottime - pause / 2.0, "{monotonic} {boottime}");
}

fn seconds(line: &str) -> [f64; 3] {
    let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

fn tell_clocks() {
    let start = Instant::now();
    for _question in std::io::stdin().lines() {
        let boottime = clock_gettime(ClockId::Boottime);
        let boottime = boottime.tv_sec as f64 + boottime.tv_nsec as f64 / 1e9;
        println!("\nCLOCKS {} {boottime} {}", start.elapsed().as_secs_f64(), now());
    }
}

const READER: &str = r#"
#include <stdio.h>
#include <time.h>
int main(void) {
    clockid_t ids[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME};
    while (getchar() == '\n') {
        for (int i = 0; i < 3; i++) {
            struct timespec now;
            clock_gettime(ids[i], &now);
            printf("%lld.%09ld%c", (long long)now.tv_sec, now.tv_nsec, i < 2 ? ' ' : '\n');
        }
        fflush(stdout);
    }
}
"#;

async fn built(source: &str, folder: &Path) -> PathBuf {
    let (file, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&file, source).unwrap();
    let mut cc = Command::new(programs::find("cc", "gcc").unwrap());
    cc.args(["-pthread", "-o"]).args([&program, &file]);
    programs::run(cc).await.unwrap();
    program
}

/// A wall clock that is stopped shows one time until it is stepped. The others run.
#[tokio::test]
async fn a_stopped_wall_clock_moves_only_by_steps() {
    let clock = Clock::new().await.unwrap();
    let folder = Process::folder_for(None).unwrap();
    let reader = built(READER, folder.path()).await;
    let read = async || {
        let mut child = Command::new(&reader)
            .envs(clock.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap()).unwrap();
        let answer = BufReader::new(child.stdout.take().unwrap()).lines().next();
        assert!(child.wait().unwrap().success());
        seconds(&answer.unwrap().unwrap())
    };
    clock.stop().unwrap();
    let (first, second) = (read().await, read().await);
    assert!(second[0] > first[0], "CLOCK_MONOTONIC runs: {first:?}, {second:?}");
    assert_eq!(first[2..], second[2..]);
    clock.step(-1.0).unwrap();
    let third = read().await;
    assert!((third[2] - first[2] + 1.0).abs() < 1e-5, "{first:?}, {third:?}");
}

/// Waits a fifth of a second for a condition, by either clock and by either function, and tells how
/// long that took. It ends itself after half a minute.
const WAITER: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static double now(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
int main(void) {
    alarm(30);
    clockid_t ids[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    for (int i = 0; i < 4; i++) {
        clockid_t id = ids[i % 2];
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_condattr_t attributes;
        pthread_cond_t cond;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, id);
        pthread_cond_init(&cond, &attributes);
        double start = now(CLOCK_MONOTONIC), end = now(id) + 0.2;
        struct timespec until = {(time_t)end, (long)((end - (time_t)end) * 1e9)};
        pthread_mutex_lock(&mutex);
        if (i < 2) pthread_cond_timedwait(&cond, &mutex, &until);
        else pthread_cond_clockwait(&cond, &mutex, id, &until);
        pthread_mutex_unlock(&mutex);
        printf("%f%c", now(CLOCK_MONOTONIC) - start, i < 3 ? ' ' : '\n');
    }
}
"#;

/// A program that waits until an instant of its own clock waits for as long as it means to.
#[tokio::test]
async fn waits_for_a_condition_are_of_the_shifted_clocks() {
    let clock = Clock::new().await.unwrap();
    let folder = Process::folder_for(None).unwrap();
    let waiter = built(WAITER, folder.path()).await;
    let hour = 3_600_000_000_000;
    // This clock began at zero when the machine was booted, which may have been a minute ago.
    let monotonic = clock_gettime(ClockId::Monotonic);
    let back = (monotonic.tv_sec * 1_000_000_000 / 2).min(hour);
    for (realtime, monotonic, stands) in
        [(-hour, hour, false), (hour, -back, false), (-hour, hour, true)]
    {
        clock.set(Offsets { realtime, monotonic, boottime: 0 }).unwrap();
        if stands {
            clock.stop().unwrap();
        }
        let mut waiting = Command::new(&waiter);
        waiting.envs(clock.env());
        let waited = programs::run(waiting).await.unwrap();
        let waited: Vec<f64> =
            waited.split_whitespace().map(|took| took.parse().unwrap()).collect();
        assert_eq!(waited.len(), 4, "{waited:?}");
        assert!(waited.iter().all(|took| (0.19..30.0).contains(took)), "{waited:?}");
    }
}
