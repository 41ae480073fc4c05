//! A server's process is there when it should be, and gone when it should be.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use servers::{
    KitError, Postgres, PostgresOptions, Process, Redis, RedisOptions, Server as _, Spec, is_alive,
    programs, wait::until,
};

const SOON: Duration = Duration::from_secs(30);
const HELPER: &str = "KIT_TEST_HELPER";

async fn until_gone(pids: &[u32]) {
    until(&format!("processes {pids:?} to go"), SOON, || async {
        Ok((!pids.iter().any(|pid| is_alive(*pid))).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn gone_after_drop_with_its_folder() {
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let (pid, folder) = (redis.process().pid().unwrap(), redis.process().folder().to_owned());
    assert!(is_alive(pid) && folder.exists());
    drop(redis);
    assert!(!is_alive(pid) && !folder.exists());
}

#[tokio::test]
async fn gone_after_drop_while_paused() {
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    let tree = postgres.process().tree().unwrap();
    assert!(tree.len() > 3, "PostgreSQL has workers: {tree:?}");
    postgres.pause().unwrap();
    drop(postgres);
    assert!(!tree.iter().any(|pid| is_alive(*pid)));
}

#[tokio::test]
async fn gone_after_a_panic() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let redis = Redis::start(RedisOptions::new()).await.unwrap();
        tell.send(redis.process().pid().unwrap()).unwrap();
        panic!("this test panics on purpose");
    });
    let pid = told.await.unwrap();
    assert!(task.await.unwrap_err().is_panic());
    assert!(!is_alive(pid));
}

/// The thread that asked for a server may end: the parent-death signal is not tied to it.
#[tokio::test]
async fn outlives_the_thread_that_started_it() {
    let redis = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Redis::start(RedisOptions::new())).unwrap()
    })
    .join()
    .unwrap();
    assert_eq!(redis.cli(&["PING"]).await.unwrap(), "PONG");
}

/// This test runs itself in another process, as the helper that is killed.
#[tokio::test]
async fn gone_after_sigkill_of_the_test_process() {
    if std::env::var_os(HELPER).is_some() {
        return be_killed().await;
    }
    let helper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::gone_after_sigkill_of_the_test_process", "--nocapture"])
        .env(HELPER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut helper = Killed(helper);
    let lines = BufReader::new(helper.0.stdout.take().unwrap()).lines();
    let line = lines
        .map(Result::unwrap)
        .find_map(|line| line.split_once("STARTED ").map(|x| x.1.to_owned()));
    let line = line.expect("the helper starts its servers");
    let (folder, pids) = line.split_once(' ').unwrap();
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() > 4 && pids.iter().all(|pid| is_alive(*pid)));
    assert!(Path::new(folder).exists());

    drop(helper);
    until_gone(&pids).await;
    until("the folder to go", SOON, || async { Ok((!Path::new(folder).exists()).then_some(())) })
        .await
        .unwrap();
}

/// Killed on drop, so also if the test fails before it comes to that.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// One server that runs, and one whose workers are paused and so cannot see their server's end.
async fn be_killed() {
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    postgres.pause().unwrap();
    let mut pids = redis.process().tree().unwrap();
    pids.extend(postgres.process().tree().unwrap());
    let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
    let folder = redis.process().folder().parent().unwrap();
    println!("STARTED {} {}", folder.display(), pids.join(" "));
    std::future::pending().await
}

#[tokio::test]
async fn a_server_that_ends_at_once_shows_its_log() {
    let error = Redis::start(RedisOptions::new().line("no-such-setting 1")).await.unwrap_err();
    assert!(matches!(error, KitError::Exited { .. }), "{error:?}");
    assert!(error.to_string().contains("no-such-setting"), "{error}");
}

#[test]
fn a_missing_program_names_its_package() {
    let error = programs::find("no-such-server", "no-such-package").unwrap_err();
    assert!(error.to_string().contains("apt-get install no-such-package"), "{error}");
}

#[tokio::test]
async fn a_process_that_ends_by_itself_is_seen() {
    let folder = Process::folder_for(None).unwrap();
    let spec = Spec::new("a shell", "sh").args(["-c", "echo bye; exit 3"]);
    let mut process = Process::start(spec, folder).unwrap();
    let status = process.wait_ended(SOON).await.unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(process.log_tail(), "bye\n");
    assert!(matches!(process.pid(), Err(KitError::NotRunning { .. })));
}
