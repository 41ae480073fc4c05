//! Competitors in processes of their own: the benchmark, run again.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{Contender, Pace, Turn, compete};

const FLAG: &str = "--child";
const DONE: &str = "done";

/// The part of a child, if this process is one: connects, says so, and competes as often as it is told
/// to. To be called first in a benchmark that uses [`Children`].
pub async fn child() -> bool {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, flag, kind, url, first, tasks] = &arguments[..] else { return false };
    if flag != FLAG {
        return false;
    }
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

/// Processes with some tasks each, all on one name. They end with this.
#[derive(Debug)]
pub struct Children(Vec<(Child, ChildStdin, Lines<BufReader<ChildStdout>>)>);

impl Children {
    /// So many of them, connected.
    pub async fn start(kind: &str, url: &str, processes: usize, tasks: usize) -> Self {
        let mut children = Vec::new();
        for process in 0..processes {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args([FLAG, kind, url, &(process * tasks).to_string(), &tasks.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let stdin = child.stdin.take().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(DONE));
            children.push((child, stdin, lines));
        }
        Self(children)
    }

    /// Lets them compete.
    pub async fn compete(&mut self, span: Duration) -> Vec<Turn> {
        let start = format!("{}\n", span.as_millis());
        for (_, stdin, _) in &mut self.0 {
            stdin.write_all(start.as_bytes()).await.unwrap();
        }
        let mut turns = Vec::new();
        for (_, _, lines) in &mut self.0 {
            loop {
                let line = lines.next_line().await.unwrap().unwrap();
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
