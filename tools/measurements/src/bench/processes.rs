//! Contenders in child processes. A child is this benchmark program, started again.

use std::time::Duration;

use conformance_tests::ChildProcess;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{Contender, Pace, Turn, compete};

/// The environment variable that tells a process what it is to do.
const CHILD: &str = "LEASEHOLD_BENCH_CHILD";
const DONE: &str = "done";

/// If this process is a child, competes as often as its parent says, and returns `true` at the end.
/// A benchmark that uses [`Children`] must call this first.
pub async fn child() -> bool {
    let Ok(job) = std::env::var(CHILD) else { return false };
    let job: Vec<&str> = job.split(' ').collect();
    let [kind, url, first, tasks] = job[..] else { return false };
    let [first, tasks] = [first, tasks].map(|number| number.parse().unwrap());
    let contender = [Contender::open(kind, url).await];
    println!("{DONE}");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(millis) = lines.next_line().await.unwrap() {
        let pace = Pace::fast(Duration::from_millis(millis.parse().unwrap()));
        for turn in compete(&contender, tasks, first, "apart", pace).await {
            println!("{} {} {}", turn.task, turn.held.as_nanos(), turn.freeing.as_nanos());
        }
        println!("{DONE}");
    }
    let [Contender::Leasehold(client)] = &contender else { return true };
    client.close().await;
    true
}

/// Child processes whose tasks all want one name. They are killed when this is dropped.
#[derive(Debug)]
pub struct Children(Vec<ChildProcess>);

impl Children {
    /// Starts `processes` children with `tasks` tasks each, and waits until they are connected.
    pub async fn start(kind: &str, url: &str, processes: usize, tasks: usize) -> Self {
        let mut children = Vec::new();
        for process in 0..processes {
            let job = format!("{kind} {url} {} {tasks}", process * tasks);
            let mut child = ChildProcess::start(CHILD, &job).unwrap();
            assert_eq!(child.next_line().await.unwrap().as_deref(), Some(DONE));
            children.push(child);
        }
        Self(children)
    }

    /// Lets all children compete for `span`.
    pub async fn compete(&mut self, span: Duration) -> Vec<Turn> {
        for child in &mut self.0 {
            child.write(&span.as_millis().to_string()).await.unwrap();
        }
        let mut turns = Vec::new();
        for child in &mut self.0 {
            loop {
                let line = child.next_line().await.unwrap().unwrap();
                if line == DONE {
                    break;
                }
                let [task, held, freeing] =
                    [0, 1, 2].map(|at| line.split(' ').nth(at).unwrap().parse::<u64>().unwrap());
                let [held, freeing] = [held, freeing].map(Duration::from_nanos);
                turns.push(Turn { task: task as usize, held, freeing });
            }
        }
        turns
    }
}
