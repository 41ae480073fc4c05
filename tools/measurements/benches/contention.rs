//! Clients that want the same lock: how often it changes hands, how long each client waits, and
//! when the locks of killed processes are free. Other libraries run on the same server.
//!
//! `cargo bench -p measurements --bench contention [-- STORE… PART…]` runs some stores (also
//! `redlock`), and some of the parts:
//!
//! - `own`: 64 tasks, each on a name of its own, beside the first other library (Redis, Redlock and
//!   ZooKeeper only);
//! - `tasks`: 16 tasks of one client, all on one name;
//! - `wake`: the same, but each task holds for 10 ms and then pauses for 50 ms, so that a waiter is
//!   woken by each release;
//! - `clients` and `holding`: 16 clients with a task each, which hold for no time or for 5 ms;
//! - `processes`: 8 processes with 4 tasks each;
//! - `killed`: 200 processes with a lock each are killed at once;
//! - `crowd`, only if it is named: 500 clients with a task each, which hold for 20 ms, for as long
//!   as is said (`-- redis crowd 1h`; by default a minute). A lost lock ends the run.
//!
//! Figures are medians of the rounds. A change is a grant to another task than the last one.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use conformance_tests::ChildProcess;
use futures_util::future::join_all;
use lock_core::LockClient;
use measurements::bench::{
    Asked, Awake, Children, Contender, LEASE, Pace, Site, Turn, child, compete, median, pairs,
    rates, seen,
};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader};

const PARTS: [&str; 7] = ["own", "tasks", "wake", "clients", "holding", "processes", "killed"];
const ROUNDS: usize = 5;
const PACE: Pace = Pace::fast(Duration::from_secs(2));
/// Not one of [`PARTS`], which run by default.
const CROWD: &str = "crowd";
/// Tasks on one name.
const TASKS: usize = 16;
/// Processes that are killed at once.
const KILLED: usize = 200;
/// How many clients wait for the names of the killed processes: one for all, or as many as let the
/// server work for several at once.
const HEIRS: [usize; 2] = [1, 20];
/// The environment variable of a process that is to be killed: its store and its lock.
const HOLD: &str = "LEASEHOLD_BENCH_HOLD";
/// The lease of the processes that are killed.
const SHORT: Duration = Duration::from_secs(6);

/// Other locks of the same store, or of the same machine.
fn peers(kind: &str) -> &'static [&'static str] {
    match kind {
        "memory" => &["tokio-mutex"],
        "sqlite" => &["flock"],
        "redis" => &["rslock", "rslock 5", "rslock 2", "rslock 1"],
        "redlock" => &["rslock"],
        "etcd" => &["lock-api"],
        "postgres" => &["advisory"],
        "zookeeper" => &["recipe"],
        _ => &["get-lock"],
    }
}

async fn open(by: &str, site: &Site) -> Contender {
    match by {
        "leasehold" => Contender::Leasehold(site.client().await),
        peer => Contender::open(peer, site.url()).await,
    }
}

/// Acquire and release on own names, leasehold beside the store's first peer.
async fn own(kind: &str) {
    let site = Site::start(kind).await;
    let peer = peers(kind)[0];
    println!("\n{kind}: 64 tasks on names of their own");
    let kinds = [
        ("leasehold", pairs(&open("leasehold", &site).await)),
        (peer, pairs(&open(peer, &site).await)),
    ];
    println!("  leasehold / {peer}: {:.2}", rates(&kinds).await.ratio(0, 1));
}

/// Those that compete in one line of a table.
enum Group {
    /// Tasks of this process, shared out over these clients.
    Tasks(Vec<Contender>),
    Processes(Children),
}

impl Group {
    async fn start(part: &str, by: &str, site: &Site) -> Self {
        let clients = match part {
            "processes" => return Self::Processes(Children::start(by, site.url(), 8, 4).await),
            "clients" | "holding" => TASKS,
            _ => 1,
        };
        let mut each = Vec::new();
        for _ in 0..clients {
            each.push(open(by, site).await);
        }
        Self::Tasks(each)
    }

    async fn compete(&mut self, name: &str, pace: Pace) -> Vec<Turn> {
        match self {
            Self::Tasks(clients) => compete(clients, TASKS, 0, name, pace).await,
            Self::Processes(children) => children.compete(pace.span).await,
        }
    }
}

/// The columns of a table.
const COLUMNS: [&str; 6] =
    ["grants /s", "changes /s", "median ms", "p99 ms", "longest wait ms", "others' turns"];

/// One round of one group, in the order of [`COLUMNS`].
fn figures(mut turns: Vec<Turn>) -> [f64; 6] {
    let changes = seen(&mut turns);
    let (longest, most) = longest_wait(&turns);
    let span = turns.last().map_or(0.0, |last| (last.held - turns[0].held).as_secs_f64());
    let grants = turns.len().saturating_sub(1) as f64 / span.max(f64::MIN_POSITIVE);
    let longest = longest.as_secs_f64() * 1e3;
    [grants, changes.per_second, changes.p50 / 1e3, changes.p99 / 1e3, longest, most as f64]
}

/// The longest time from a task's release until its next grant, and the most turns that others had
/// meanwhile.
fn longest_wait(turns: &[Turn]) -> (Duration, usize) {
    let (mut last, mut longest, mut most) = (HashMap::new(), Duration::ZERO, 0);
    for (at, turn) in turns.iter().enumerate() {
        if let Some((before, freed)) = last.insert(turn.task, (at, turn.freeing)) {
            longest = longest.max(turn.held.saturating_sub(freed));
            most = most.max(at - before - 1);
        }
    }
    (longest, most)
}

/// leasehold and its peers in turn, all on one name.
async fn contended(kind: &str, part: &str) {
    let site = Site::start(kind).await;
    let pace = match part {
        "wake" => {
            let [hold, think] = [10, 50].map(Duration::from_millis);
            Pace { hold, think, ..PACE }
        }
        "holding" => Pace { hold: Duration::from_millis(5), ..PACE },
        _ => PACE,
    };
    let names = ["leasehold"].iter().chain(peers(kind));
    let mut groups = Vec::new();
    for by in names {
        groups.push((*by, Group::start(part, by, &site).await, COLUMNS.map(|_| Vec::new())));
    }
    for _ in 0..ROUNDS {
        for (_, group, rounds) in &mut groups {
            let figures = figures(group.compete(part, pace).await);
            rounds.iter_mut().zip(figures).for_each(|(rounds, figure)| rounds.push(figure));
        }
    }
    println!("\n{kind}: {part}\n{:>12} {} {:>12}", "by", COLUMNS.join(" "), "leasehold /");
    let ours = groups[0].2[1].clone();
    for (by, _, rounds) in groups {
        let ratio = ours.iter().zip(&rounds[1]).map(|(ours, theirs)| ours / theirs).collect();
        print!("{by:>12}");
        for (column, rounds) in COLUMNS.iter().zip(rounds) {
            print!(" {:>1$.2}", median(rounds), column.len());
        }
        println!(" {:>12.2}", median(ratio));
    }
}

async fn crowd(kind: &str, span: Duration) {
    let site = Site::start(kind).await;
    let mut clients = Vec::new();
    for _ in 0..500 {
        clients.push(open("leasehold", &site).await);
    }
    let pace = Pace { span, hold: Duration::from_millis(20), ..PACE };
    let turns = compete(&clients, clients.len(), 0, CROWD, pace).await;
    println!("\n{kind}: {CROWD}, {} grants, none lost\n{}", turns.len(), COLUMNS.join(" "));
    for (column, figure) in COLUMNS.iter().zip(figures(turns)) {
        print!("{figure:>0$.2} ", column.len());
    }
    println!();
}

/// If this process is one that is to be killed, holds its lock until then and returns `true`.
async fn holds() -> bool {
    let Ok(job) = std::env::var(HOLD) else { return false };
    let (url, name) = job.split_once(' ').unwrap();
    let client: LockClient = leasehold::connect(url).await.unwrap();
    let _guard = client.lock(name).lease(SHORT).acquire().await.unwrap();
    println!("{name}");
    // Until this process is killed, or its parent has gone.
    let mut line = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut line).await.unwrap();
    true
}

async fn holder(url: &str, name: &str) -> ChildProcess {
    let mut child = ChildProcess::start(HOLD, &format!("{url} {name}")).unwrap();
    assert_eq!(child.next_line().await.unwrap().as_deref(), Some(name));
    child
}

async fn killed(kind: &str, heirs: usize) {
    let site = Site::start(kind).await;
    let names: Vec<_> = (0..KILLED).map(|number| format!("killed {number}")).collect();
    let mut holders = Vec::new();
    for some in names.chunks(10) {
        holders.extend(join_all(some.iter().map(|name| holder(site.url(), name))).await);
    }
    let clients = join_all((0..heirs).map(|_| site.client())).await;
    let promised = clients[0].guarantees();
    let waits: Vec<_> = names
        .iter()
        .zip(clients.iter().cycle())
        .map(|(name, client)| tokio::spawn(client.lock(name.as_str()).lease(LEASE).acquire()))
        .collect();
    // By then all clients wait, and each lock was renewed.
    tokio::time::sleep(SHORT).await;
    let still = waits.iter().filter(|wait| !wait.is_finished()).count();
    let began = Instant::now();
    holders.iter().for_each(|holder| holder.signal(Signal::KILL).unwrap());
    let mut guards = Vec::new();
    for wait in waits {
        guards.push(wait.await.unwrap().unwrap());
    }
    println!(
        "{kind}: {heirs} clients acquired {still} of {KILLED} locks of killed processes in {:.2} s; each must be free within \
         lease and slack, {:.2} s",
        began.elapsed().as_secs_f64(),
        (SHORT + promised.expiry_slack).as_secs_f64()
    );
    join_all(guards.into_iter().map(|guard| guard.release())).await;
    join_all(clients.iter().map(LockClient::close)).await;
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if runtime.block_on(async { holds().await || child().await }) {
        return;
    }
    let asked = Asked::from_args();
    let stores: Vec<_> = Site::KINDS.into_iter().chain(["redlock"]).collect();
    let parts: Vec<_> = match asked.find(|word| word == CROWD) {
        Some(_) => vec![CROWD],
        None => PARTS.into_iter().filter(|part| asked.wants(part, &PARTS)).collect(),
    };
    let span = asked.find(|word| humantime::parse_duration(word).is_ok());
    let span =
        span.map_or(Duration::from_secs(60), |span| humantime::parse_duration(span).unwrap());
    // A crowd runs for long, and shares the processors with its server.
    let _awake = (parts != [CROWD]).then(Awake::keep);
    for kind in stores.iter().copied().filter(|kind| asked.wants(kind, &stores)) {
        for part in &parts {
            match *part {
                CROWD => runtime.block_on(crowd(kind, span)),
                "own" if !matches!(kind, "redis" | "redlock" | "zookeeper") => {}
                "own" => runtime.block_on(own(kind)),
                // Other processes do not reach a store in memory.
                "processes" | "killed" if kind == "memory" => {}
                "killed" => {
                    HEIRS.into_iter().for_each(|heirs| runtime.block_on(killed(kind, heirs)));
                }
                part => runtime.block_on(contended(kind, part)),
            }
        }
    }
}
