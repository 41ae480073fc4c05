//! The same from several processes: the benchmark, run again.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use crate::{
    RUN,
    contended::{Contender, Turn, compete},
};

const PROCESSES: usize = 8;
const TASKS: usize = 4;

/// The part of a child process, if this is one: connects, says so, starts when told, and reports.
pub(crate) async fn child(arguments: &[String]) -> bool {
    let [_, flag, kind, url, first] = arguments else { return false };
    if flag != "--child" {
        return false;
    }
    let contender = match kind.as_str() {
        "leasehold" => Contender::leasehold(url).await,
        pause => {
            let pause = pause.parse().ok().map(Duration::from_millis);
            Contender::rslock(url, pause)
        }
    };
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let paces = (RUN, Duration::ZERO, Duration::ZERO);
    for turn in compete(&[contender], TASKS, first.parse().unwrap(), "apart", paces).await {
        println!("{} {} {}", turn.task, turn.held.as_nanos(), turn.freeing.as_nanos());
    }
    true
}

/// Eight processes with four tasks each.
pub(crate) async fn run(kind: &str, url: &str) -> Vec<Turn> {
    let mut children = Vec::new();
    for process in 0..PROCESSES {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--child", kind, url, &(process * TASKS).to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
        children.push((child, lines));
    }
    for (child, _) in &mut children {
        child.stdin.take().unwrap().write_all(b"\n").await.unwrap();
    }
    let mut turns = Vec::new();
    for (child, lines) in &mut children {
        while let Some(line) = lines.next_line().await.unwrap() {
            let [task, held, freeing] =
                [0, 1, 2].map(|at| line.split(' ').nth(at).unwrap().parse::<u64>().unwrap());
            turns.push(Turn {
                task: task as usize,
                held: Duration::from_nanos(held),
                freeing: Duration::from_nanos(freeing),
            });
        }
        assert!(child.wait().await.unwrap().success());
    }
    turns
}
