//! Five Redis: floors, ours and rslock on the same nodes in one run; medians.
//! `cargo bench -p benchmarks --bench redlock`.
//!
//! The cores are kept awake. Handoffs are counted only where the holder changes; from release to acquired
//! is from before the release of one task to the guard of another.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use benchmarks::{
    Awake, Call, Contender, Pace, Paused, Seen, bare, compete, many, one_by_one, pairs_of, seen,
};
use conformance_tests::kit::{Redis, RedisOptions, Server as _};
use lock_core::Init;

const NODES: usize = 5;
const RUN: Duration = Duration::from_secs(3);

async fn latency(label: &str, call: &Call) -> Seen {
    let seen = one_by_one(call, RUN / 3).await;
    println!("{label:<46} {:>9.1} µs   p99 {:>9.1} µs", seen.p50, seen.p99);
    seen
}

/// How many scripts all nodes ran.
async fn calls(nodes: &[Redis]) -> u64 {
    let mut sum = 0;
    for node in nodes {
        let stats = node.cli(&["INFO", "commandstats"]).await.unwrap();
        for name in ["evalsha", "eval"] {
            let field = format!("cmdstat_{name}:calls=");
            let value = stats.lines().find_map(|line| line.strip_prefix(&field)?.split(',').next());
            sum += value.map_or(0, |value| value.parse::<u64>().unwrap());
        }
    }
    sum
}

/// Changes of holder among 16 tasks, and what one took.
async fn handoffs(nodes: &[Redis], label: &str, contenders: &[Contender]) -> Seen {
    let before = calls(nodes).await;
    let mut turns = compete(contenders, 16, 0, label, Pace::fast(RUN)).await;
    let (seen, grants) = (seen(&mut turns), turns.len() as f64 / RUN.as_secs_f64());
    println!(
        "{label:<46} {:>9.0} /s to another holder, of {grants:.0} grants/s; \
         release to acquired {:.0} µs, p99 {:.0} µs",
        seen.per_second, seen.p50, seen.p99
    );
    let per = (calls(nodes).await - before) as f64 / seen.count as f64;
    println!("  scripts per handoff: {per:.1} on all nodes");
    seen
}

async fn measure(nodes: &[Redis]) {
    let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    let url = format!("redlock://{}", hosts.join(","));
    let store = backend_redlock::connect(&url).await.unwrap();
    store.init(&Init { first_use: true, ..Init::default() }).await.unwrap();
    let pings = bare::pings_of_all(&url).await;
    let ours = Contender::open("leasehold", &url).await;
    let rival = Contender::open("rslock", &url).await;

    println!("\none task, acquire and release");
    for _ in 0..3 {
        let floor = latency("5 parallel PINGs, the slowest, twice", &pings).await;
        let healthy = latency("leasehold", &pairs_of(&ours)).await;
        latency("rslock", &pairs_of(&rival)).await;
        println!("  leasehold / PINGs: {:.2}", healthy.p50 / floor.p50);
    }
    println!("\n64 tasks on names of their own, pairs");
    for _ in 0..2 {
        let [own, peer] =
            [many(&pairs_of(&ours), 64, RUN).await, many(&pairs_of(&rival), 64, RUN).await];
        println!("{:<46} {:>9.0} /s", "leasehold", own.per_second);
        println!("{:<46} {:>9.0} /s", "rslock", peer.per_second);
        println!("  leasehold / rslock: {:.2}", own.per_second / peer.per_second);
    }
    println!("\n16 tasks on one name");
    let own = handoffs(nodes, "leasehold, one process", &[ours]).await;
    let apart = Contender::each("leasehold", &url, 16).await;
    let apart = handoffs(nodes, "leasehold, a client per task", &apart).await;
    let rival = handoffs(nodes, "rslock, defaults", &[rival]).await;
    println!(
        "  handoffs: one process {:.1}, a client each {:.1} times",
        own.per_second / rival.per_second,
        apart.per_second / rival.per_second
    );
    println!(
        "  p99: one process {:.3}, a client each {:.3} of it",
        own.p99 / rival.p99,
        apart.p99 / rival.p99
    );
    println!("\ntwo of five nodes paused");
    let [healthy, degraded] = Paused::start().await.round(RUN / 3).await;
    println!("  degraded / healthy: {:.2}", degraded.p50 / healthy.p50);
}

fn main() {
    let _awake = Awake::keep();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let nodes = Redis::start_many(NODES, RedisOptions::new()).await.unwrap();
        measure(&nodes).await;
    });
}
