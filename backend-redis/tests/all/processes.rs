//! Several processes, each with several tasks, want one name. None of them starves, and queue entries are served in the
//! order in which they were made.

use std::{collections::HashMap, process::Stdio, time::Duration};

use lock_core::LockClient;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::support::{connect, name, server, url};

const PROCESSES: usize = 8;
const TASKS: usize = 4;
const TURNS: usize = 16;
const SOON: Duration = Duration::from_secs(60);
/// Set in a child process: the URL of its store.
const STORE: &str = "LEASEHOLD_TEST_STORE";

/// One process. It prints `ready`, starts when it reads a line, and prints who got which token.
#[tokio::test]
#[ignore = "a process of the test below, started by it"]
async fn part() {
    let store = std::env::var(STORE).unwrap();
    let client = LockClient::new(connect(&store).await);
    println!("\nready");
    // If the parent is gone, the input is closed.
    assert!(std::io::stdin().read_line(&mut String::new()).unwrap() > 0);
    let tasks = (0..TASKS).map(|task| {
        let client = client.clone();
        async move {
            for _ in 0..TURNS {
                let guard = client.lock(name("a")).wait(SOON).acquire().await.unwrap();
                println!("took {task} {}", guard.token());
                guard.release().await.unwrap();
            }
        }
    });
    futures_util::future::join_all(tasks).await;
}

struct Part {
    lines: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    child: Child,
}

impl Part {
    fn start(url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::part", "--ignored", "--nocapture"])
            .env(STORE, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { lines, input: child.stdin.take().unwrap(), child }
    }

    async fn line(&mut self) -> Option<String> {
        tokio::time::timeout(SOON, self.lines.next_line()).await.unwrap().unwrap()
    }

    async fn ready(&mut self) {
        while self.line().await.expect("it ended early") != "ready" {}
    }

    /// The task and token of each turn.
    async fn turns(mut self) -> Vec<(usize, u64)> {
        let mut turns = Vec::new();
        while let Some(line) = self.line().await {
            if let Some((task, token)) =
                line.strip_prefix("took ").and_then(|turn| turn.split_once(' '))
            {
                turns.push((task.parse().unwrap(), token.parse().unwrap()));
            }
        }
        assert!(self.child.wait().await.unwrap().success());
        turns
    }
}

#[tokio::test]
async fn eight_processes_with_four_tasks_take_turns_in_order() {
    let server = server().await;
    // The lock is held until all wait, so that all compete from the first turn on.
    let first = LockClient::new(connect(&url(&server)).await);
    let guard = first.lock(name("a")).acquire().await.unwrap();
    let mut parts: Vec<_> = (0..PROCESSES).map(|_| Part::start(&url(&server))).collect();
    for part in &mut parts {
        part.ready().await;
    }
    for part in &mut parts {
        part.input.write_all(b"\n").await.unwrap();
    }
    crate::support::queued(&**first.backend(), "a", PROCESSES as u64).await;
    guard.release().await.unwrap();

    let mut order = Vec::new();
    let turns = parts.into_iter().map(Part::turns);
    for (process, turns) in futures_util::future::join_all(turns).await.into_iter().enumerate() {
        assert_eq!(turns.len(), TASKS * TURNS);
        order.extend(turns.into_iter().map(|(task, token)| (token, process, task)));
    }
    order.sort_unstable();
    // The part in which all compete: no task has finished yet.
    let all = &order[..order.len() * 3 / 4];

    let mut shares = HashMap::<_, u32>::new();
    for (_, process, task) in all {
        *shares.entry((process, task)).or_default() += 1;
    }
    let (least, most) = (shares.values().min().unwrap(), shares.values().max().unwrap());
    assert_eq!(shares.len(), PROCESSES * TASKS, "somebody starved: {shares:?}");
    assert!(most <= &(2 * least), "{shares:?}");

    // After a grant a process goes to the end. So between two turns of one process, each other process has one. On a loaded
    // machine an entry may come a little late, and lets another pass once.
    for process in 0..PROCESSES {
        let places: Vec<_> = (0..all.len()).filter(|at| all[*at].1 == process).collect();
        for pair in places.windows(2) {
            let between = &all[pair[0] + 1..pair[1]];
            for other in 0..PROCESSES {
                let turns = between.iter().filter(|(_, who, _)| *who == other).count();
                assert!(turns <= 2, "{other} overtook {process}: {between:?}");
            }
        }
    }
}
