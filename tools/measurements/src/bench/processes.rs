//! Contenders in child processes. A child is this benchmark program, started again.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::{Contender, Pace, Turn, compete};

const FLAG: &str = "--child";
const DONE: &str = "done";

/// If this process is a child, competes as often as its parent says, and returns `true` at the end.
/// A benchmark that uses [`Children`] must call this first.
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

/// Child processes whose tasks all want one name. They are killed when this is dropped.
#[derive(Debug)]
pub struct Children(Vec<(Child, ChildStdin, Lines<BufReader<ChildStdout>>)>);

impl Children {
    /// Starts `processes` children with `tasks` tasks each, and waits until they are connected.
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

    /// Lets all children compete for `span`.
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
