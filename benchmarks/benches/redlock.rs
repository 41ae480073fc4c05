//! Five Redis: floors, ours and rslock on the same nodes in one run; medians.
//! `cargo bench -p benchmarks --bench redlock`, or with `-- PART…` only some of: `one`, `many`, `handoff`,
//! `paused`.
//!
//! The cores are kept awake. Handoffs are counted only where the holder changes; from release to acquired
//! is from before the release of one task to the guard of another.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use benchmarks::{
    Awake, Contender, Pace, Paused, Seen, bare, compete, latencies, pairs_of, rates, seen,
};
use conformance_tests::kit::{Redis, RedisOptions, Server as _};
use lock_core::Init;

const NODES: usize = 5;
const RUN: Duration = Duration::from_secs(3);

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

async fn measure(nodes: &[Redis], wanted: impl Fn(&str) -> bool) {
    let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    let url = format!("redlock://{}", hosts.join(","));
    let store = backend_redlock::connect(&url).await.unwrap();
    store.init(&Init::new().with_first_use(true)).await.unwrap();
    let pings = bare::pings_of_all(&url).await;
    let ours = Contender::open("leasehold", &url).await;
    let rival = Contender::open("rslock", &url).await;

    let kinds = [
        ("5 parallel PINGs, the slowest, twice", pings),
        ("leasehold", pairs_of(&ours)),
        ("rslock", pairs_of(&rival)),
    ];
    if wanted("one") {
        println!("\none task, acquire and release");
        let seen = latencies(&kinds).await;
        println!(
            "  leasehold / PINGs: {:.2}; rslock / PINGs: {:.2}",
            seen.ratio(1, 0),
            seen.ratio(2, 0)
        );
    }
    if wanted("many") {
        println!("\n64 tasks on names of their own, pairs");
        println!("  leasehold / rslock: {:.2}", rates(&kinds[1..]).await.ratio(0, 1));
    }
    if wanted("handoff") {
        race(nodes, &url, ours, rival).await;
    }
    if wanted("paused") {
        println!("\ntwo of five nodes paused");
        let [healthy, degraded] = Paused::start().await.round(RUN / 3).await;
        println!("  degraded / healthy: {:.2}", degraded.p50 / healthy.p50);
    }
}

async fn race(nodes: &[Redis], url: &str, ours: Contender, rival: Contender) {
    println!("\n16 tasks on one name");
    let own = handoffs(nodes, "leasehold, one process", &[ours]).await;
    let apart = Contender::each("leasehold", url, 16).await;
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
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let asked: Vec<_> = arguments.iter().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|word| *word == part);
    let _awake = Awake::keep();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let nodes = Redis::start_many(NODES, RedisOptions::new()).await.unwrap();
        measure(&nodes, wanted).await;
    });
}
