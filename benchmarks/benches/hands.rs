//! Who gets a name next, and when the names of clients that were killed are free.
//!
//! `cargo bench -p benchmarks --bench hands [-- STORE… PART…]`: some stores, and some of the parts `turns`, `processes`
//! and `death`.
//! Part `crowd` has to be asked for, and lasts as long as is said, as in `-- redis crowd 1h`; by default a minute.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    collections::HashMap,
    process::Stdio,
    time::{Duration, Instant},
};

use benchmarks::{Children, Contender, LEASE, Pace, Site, Turn, child, compete, seen};
use futures_util::future::join_all;
use lock_core::LockClient;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

const SPAN: Duration = Duration::from_secs(3);
const PROCESSES: [usize; 2] = [16, 250];
/// So that each has several turns, also where a handoff takes some milliseconds.
const SPAN_OF_PROCESSES: Duration = Duration::from_secs(10);
/// Clients of a crowd, and how long each holds the name.
const CROWD: usize = 500;
const HOLD_IN_CROWD: Duration = Duration::from_millis(20);
/// Processes that are killed at once.
const KILLED: usize = 200;
/// Clients that wait for their names: one for all, and as many as let the server carry out several at once.
const HEIRS: [usize; 2] = [1, 20];
/// The first argument of a process that is to be killed.
const HOLD: &str = "--hold";
/// Of the locks of those that are killed.
const SHORT: Duration = Duration::from_secs(6);

/// The longest time from giving the lock back until having it again, and the most turns that others had meanwhile.
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

/// All turns but the first, in the time from that to the last: whoever waits at the end is served after it.
fn grants_per_second(turns: &[Turn]) -> f64 {
    let [first, .., last] = turns else { return 0.0 };
    (turns.len() - 1) as f64 / (last.held - first.held).as_secs_f64()
}

/// Another lock of the same store, or of the same machine.
fn peer(kind: &str) -> Option<&'static str> {
    match kind {
        "sqlite" => Some("flock"),
        "redis" => Some("rslock"),
        "etcd" => Some("lock-api"),
        "postgres" => Some("advisory"),
        "mysql" => Some("get-lock"),
        _ => None,
    }
}

/// Clients in a loop, each with a connection of its own; then those of a peer.
async fn turns(kind: &str) {
    let site = Site::start(kind).await;
    println!("\n{kind}: clients that take one name in turns");
    println!(
        "{:>9} {:>7} {:>7} {:>10} {:>10} {:>15} {:>14}",
        "by", "clients", "hold ms", "grants /s", "changes /s", "longest wait ms", "others' turns"
    );
    turns_by("leasehold", &site).await;
    if let Some(peer) = peer(kind) {
        turns_by(peer, &site).await;
    }
}

async fn turns_by(by: &str, site: &Site) {
    for count in [2, 4, 16] {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(match by {
                "leasehold" => Contender::Leasehold(site.client().await),
                peer => Contender::open(peer, site.url()).await,
            });
        }
        for hold in [0, 200, 1_000, 5_000].map(Duration::from_micros) {
            let pace = Pace { span: SPAN, hold, think: Duration::ZERO };
            let mut turns = compete(&clients, count, 0, "turns", pace).await;
            let changes = seen(&mut turns);
            let (longest, most) = longest_wait(&turns);
            println!(
                "{by:>9} {count:>7} {:>7.1} {:>10.1} {:>10.1} {:>15.1} {most:>14}",
                hold.as_secs_f64() * 1e3,
                grants_per_second(&turns),
                changes.per_second,
                longest.as_secs_f64() * 1e3,
            );
        }
        for client in clients {
            if let Contender::Leasehold(client) = client {
                client.close().await;
            }
        }
    }
}

/// The same in processes of their own, which hold for no time.
async fn processes(kind: &str) {
    let site = Site::start(kind).await;
    println!("\n{kind}: processes that take one name in turns");
    println!(
        "{:>9} {:>10} {:>10} {:>10} {:>15} {:>14}",
        "processes", "changes /s", "median ms", "p99 ms", "longest wait ms", "others' turns"
    );
    for count in PROCESSES {
        let mut children = Children::start("leasehold", site.url(), count, 1).await;
        let mut turns = children.compete(SPAN_OF_PROCESSES).await;
        let changes = seen(&mut turns);
        let (longest, most) = longest_wait(&turns);
        println!(
            "{count:>9} {:>10.1} {:>10.2} {:>10.2} {:>15.1} {most:>14}",
            changes.per_second,
            changes.p50 / 1e3,
            changes.p99 / 1e3,
            longest.as_secs_f64() * 1e3,
        );
    }
}

/// A lock that is lost, or not had in time, ends the run.
async fn crowd(kind: &str, span: Duration) {
    let site = Site::start(kind).await;
    let mut clients = Vec::new();
    for _ in 0..CROWD {
        clients.push(Contender::Leasehold(site.client().await));
    }
    let pace = Pace { span, hold: HOLD_IN_CROWD, think: Duration::ZERO };
    let mut turns = compete(&clients, CROWD, 0, "crowd", pace).await;
    let changes = seen(&mut turns);
    let (longest, most) = longest_wait(&turns);
    println!(
        "{kind}: {CROWD} clients, each holding for {HOLD_IN_CROWD:?}, took {} turns in {}; none lost its lock; {:.1} changes \
         of hands a second; longest wait {:.1} s, others' turns meanwhile at most {most}",
        turns.len(),
        humantime::format_duration(span),
        changes.per_second,
        longest.as_secs_f64(),
    );
}

/// The part of a process that holds a lock until it is killed, if this is one.
async fn holds() -> bool {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, flag, url, name] = &arguments[..] else { return false };
    if flag != HOLD {
        return false;
    }
    let client: LockClient = leasehold::connect(url.as_str()).await.unwrap();
    let _guard = client.lock(name.as_str()).lease(SHORT).acquire().await.unwrap();
    println!("{name}");
    // Until it is killed, or its parent has gone.
    let mut line = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut line).await.unwrap();
    true
}

async fn holder(url: &str, name: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([HOLD, url, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(name));
    child
}

async fn death(kind: &str, heirs: usize) {
    let site = Site::start(kind).await;
    let names: Vec<_> = (0..KILLED).map(|number| format!("death {number}")).collect();
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
    // All wait by then, and all were renewed.
    tokio::time::sleep(SHORT).await;
    let still = waits.iter().filter(|wait| !wait.is_finished()).count();
    let began = Instant::now();
    holders.iter_mut().for_each(|holder| holder.start_kill().unwrap());
    let mut guards = Vec::new();
    for wait in waits {
        guards.push(wait.await.unwrap().unwrap());
    }
    println!(
        "{kind}: {still} of {KILLED} held names of killed processes were taken by {heirs} others after {:.2} s; promised to \
         be free: lease and slack, {:.2} s",
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
    let asked: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_asked = |word: &str| asked.iter().any(|asked| asked == word);
    let any_store = Site::KINDS.iter().any(|kind| is_asked(kind));
    let span = asked.iter().find_map(|word| humantime::parse_duration(word).ok());
    let any_part = ["turns", "processes", "death", "crowd"].iter().any(|part| is_asked(part));
    for kind in Site::KINDS.into_iter().filter(|kind| !any_store || is_asked(kind)) {
        if !any_part || is_asked("turns") {
            runtime.block_on(turns(kind));
        }
        if is_asked("crowd") {
            runtime.block_on(crowd(kind, span.unwrap_or(Duration::from_secs(60))));
        }
        // No other process sees what one has in memory.
        if kind != "memory" && (!any_part || is_asked("processes")) {
            runtime.block_on(processes(kind));
        }
        if kind != "memory" && (!any_part || is_asked("death")) {
            for heirs in HEIRS {
                runtime.block_on(death(kind, heirs));
            }
        }
    }
}
