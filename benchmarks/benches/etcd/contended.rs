//! Many who want the same lock, as tasks of one process and in several.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use conformance_tests::kit::Etcd;
use futures_util::future::join_all;
use lock_core::{Env as _, Instant, SystemEnv};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::{median, peers};

pub(crate) const CHILD: &str = "--contender";
const ROUNDS: usize = 5;
const SPAN: Duration = Duration::from_secs(2);

/// When one was acquired, and when its release was begun.
type Hold = (Instant, Instant);

pub(crate) async fn run(etcd: &Etcd) {
    let address = peers::address(etcd);
    for (what, processes, tasks) in
        [("16 tasks of one process", 1, 16), ("8 processes of 4 tasks", 8, 4)]
    {
        let mut figures = [[Vec::new(), Vec::new(), Vec::new()], Default::default()];
        for round in 0..ROUNDS {
            for (who, figures) in ["ours", "plain"].iter().zip(&mut figures) {
                let name = format!("{who} {processes} {round}");
                let holds = contend(&address, who, &name, processes, tasks).await;
                let [per_second, middle, tail] = sum_up(holds);
                figures[0].push(per_second);
                figures[1].push(middle);
                figures[2].push(tail);
            }
        }
        let [ours, plain] = figures.map(|figures| figures.map(median));
        println!("{what} on one name, medians of {ROUNDS} rounds of {SPAN:?}");
        println!(
            "  handoffs per second   {:9.0}   plain: {:9.0}   {:6.2} x",
            ours[0],
            plain[0],
            ours[0] / plain[0]
        );
        println!("  handoff, median    {:9.0} µs   plain: {:9.0} µs", ours[1], plain[1]);
        println!(
            "  handoff, 99 of 100 {:9.0} µs   plain: {:9.0} µs  1/{:.1}",
            ours[2],
            plain[2],
            plain[2] / ours[2]
        );
    }
}

/// From the begin of a release to the next acquisition, in microseconds.
fn sum_up(mut holds: Vec<Hold>) -> [f64; 3] {
    holds.sort();
    let mut gaps: Vec<f64> =
        holds.windows(2).map(|pair| pair[1].0.since(pair[0].1).as_secs_f64() * 1e6).collect();
    gaps.sort_by(f64::total_cmp);
    let part = |of: f64| gaps[(gaps.len() as f64 * of) as usize];
    [gaps.len() as f64 / SPAN.as_secs_f64(), part(0.5), part(0.99)]
}

async fn contend(
    address: &str,
    who: &str,
    name: &str,
    processes: usize,
    tasks: usize,
) -> Vec<Hold> {
    let mut children = Vec::new();
    for _ in 0..processes {
        let tasks = tasks.to_string();
        let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
        command.args([CHILD, address, who, name, &tasks]).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        children.push((child, lines));
    }
    for (_, lines) in &mut children {
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
    }
    for (child, _) in &mut children {
        child.stdin.as_mut().unwrap().write_all(b"go\n").await.unwrap();
    }
    let holds = children.into_iter().map(|(mut child, mut lines)| async move {
        let mut holds = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            let (from, to) = line.split_once(' ').unwrap();
            let [from, to] = [from, to].map(|nanos| Instant::from_nanos(nanos.parse().unwrap()));
            holds.push((from, to));
        }
        child.wait().await.unwrap();
        holds
    });
    join_all(holds).await.into_iter().flatten().collect()
}

/// A process that contends.
pub(crate) async fn child(args: &[String]) {
    let [address, who, name, tasks] = args else { panic!("wrong arguments") };
    let tasks: usize = tasks.parse().unwrap();
    let (plain, ours) = (peers::plain(address).await, peers::ours(address).await);
    println!("ready");
    BufReader::new(tokio::io::stdin()).lines().next_line().await.unwrap();
    let end = SystemEnv.now() + SPAN;
    let holds = Arc::new(Mutex::new(Vec::new()));
    let running = (0..tasks).map(|_| {
        let (plain, ours, holds) = (plain.clone(), ours.clone(), Arc::clone(&holds));
        let (is_ours, name) = (who == "ours", name.clone());
        tokio::spawn(async move {
            while SystemEnv.now() < end {
                let acquired;
                let released;
                if is_ours {
                    let guard = ours.lock(&name).acquire().await.unwrap();
                    acquired = SystemEnv.now();
                    released = acquired;
                    guard.release().await.unwrap();
                } else {
                    let lease = peers::lock(&plain, &name).await;
                    acquired = SystemEnv.now();
                    released = acquired;
                    peers::unlock(&plain, lease).await;
                }
                holds.lock().unwrap().push((acquired, released));
            }
        })
    });
    for task in join_all(running).await {
        task.unwrap();
    }
    ours.close().await;
    let holds = std::mem::take(&mut *holds.lock().unwrap());
    for (from, to) in holds.into_iter().filter(|(from, _)| *from < end) {
        println!("{} {}", from.as_nanos(), to.as_nanos());
    }
}
