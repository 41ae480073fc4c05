//! Five Redis: floors, ours and rslock on the same nodes in one run; medians.
//! `cargo bench -p benchmarks --bench redlock`.
//!
//! One thread per core spins with `yield_now`, so that no core goes idle: see `redis.rs`. Handoffs are
//! counted only where the holder changes; from release to acquired is from before the release of one
//! task to the guard of another.
#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use conformance_tests::kit::{Redis, RedisOptions, Server as _};
use lock_core::{Init, LockClient, LockName};
use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection};
use tokio::task::JoinSet;

const NODES: usize = 5;
const LEASE: Duration = Duration::from_secs(10);
const WAIT: Duration = Duration::from_secs(60);
const RUN: Duration = Duration::from_secs(3);

fn at(mut spans: Vec<Duration>, percent: usize) -> Duration {
    spans.sort_unstable();
    let last = spans.len().saturating_sub(1);
    spans.get(last * percent / 100).copied().unwrap_or_default()
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

/// The median of `rounds` calls one after the other.
async fn latency<Fut: Future<Output = ()>>(
    label: &str,
    rounds: usize,
    mut call: impl FnMut(usize) -> Fut,
) -> f64 {
    let mut spans = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let start = Instant::now();
        call(round).await;
        spans.push(start.elapsed());
    }
    let (middle, high) = (micros(at(spans.clone(), 50)), micros(at(spans, 99)));
    println!("{label:<46} {middle:>9.1} µs   p99 {high:>9.1} µs");
    middle
}

/// How often per second 64 tasks together finish `call`, each on its own name.
async fn rate<F, Fut>(label: &str, call: F) -> f64
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (count, end) = (Arc::new(AtomicU64::new(0)), Instant::now() + RUN);
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let (count, call) = (count.clone(), call.clone());
        tasks.spawn(async move {
            while Instant::now() < end {
                call(task).await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    tasks.join_all().await;
    let rate = count.load(Ordering::Relaxed) as f64 / RUN.as_secs_f64();
    println!("{label:<46} {rate:>9.0} /s");
    rate
}

#[derive(Clone, Default)]
struct Handoffs(Arc<Mutex<Seen>>);

/// What tasks saw of one lock.
#[derive(Default)]
struct Seen {
    /// Who held last.
    last: Option<usize>,
    freed: Option<Instant>,
    /// How long changes of the holder took.
    spans: Vec<Duration>,
    grants: u64,
}

impl Handoffs {
    fn held(&self, task: usize) {
        let mut seen = self.0.lock().unwrap();
        seen.grants += 1;
        if seen.last.replace(task) != Some(task)
            && let Some(freed) = seen.freed
        {
            seen.spans.push(freed.elapsed());
        }
    }

    fn freeing(&self) {
        self.0.lock().unwrap().freed = Some(Instant::now());
    }
}

/// Changes of holder per second among 16 tasks, and the 99th percentile of what one took.
async fn handoffs<F, Fut>(label: &str, run: F) -> (f64, f64)
where
    F: Fn(usize, Handoffs, Instant) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (seen, start) = (Handoffs::default(), Instant::now());
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        tasks.spawn(run(task, seen.clone(), start + RUN));
    }
    tasks.join_all().await;
    let seconds = start.elapsed().as_secs_f64();
    let Seen { spans, grants, .. } = std::mem::take(&mut *seen.0.lock().unwrap());
    let changed = spans.len() as f64 / seconds;
    let (middle, high) = (micros(at(spans.clone(), 50)), micros(at(spans, 99)));
    println!(
        "{label:<46} {changed:>9.0} /s to another holder, of {:.0} grants/s; release to acquired {middle:.0} µs, p99 {high:.0} µs",
        grants as f64 / seconds
    );
    (changed, high)
}

/// PING on all nodes at once, until the slowest has answered; twice, as an acquire and a release.
async fn pings(connections: Vec<MultiplexedConnection>) {
    for _ in 0..2 {
        let all = connections.iter().cloned().map(|mut connection| async move {
            let _: String = redis::cmd("PING").query_async(&mut connection).await.unwrap();
        });
        futures_util::future::join_all(all).await;
    }
}

async fn ours(client: LockClient, name: LockName) {
    let guard = client.lock(name).lease(LEASE).wait(WAIT).acquire().await.unwrap();
    guard.release().await.unwrap();
}

fn name(task: usize) -> LockName {
    LockName::new(format!("own {task}")).unwrap()
}

async fn peer(manager: rslock::LockManager, task: usize) {
    let lock = manager.lock(format!("rslock {task}").as_str(), LEASE).await.unwrap();
    manager.unlock(&lock).await;
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

async fn contend(client: LockClient, task: usize, seen: Handoffs, end: Instant) {
    let name = LockName::new("one").unwrap();
    while Instant::now() < end {
        let guard = client.lock(&name).lease(LEASE).wait(WAIT).acquire().await.unwrap();
        seen.held(task);
        seen.freeing();
        guard.release().await.unwrap();
    }
}

async fn measure(nodes: &[Redis]) {
    let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    let url = format!("redlock://{}", hosts.join(","));
    let urls: Vec<_> = hosts.iter().map(|host| format!("redis://{host}")).collect();
    let store = backend_redlock::connect(&url).await.unwrap();
    store.init(&Init { first_use: true, ..Init::default() }).await.unwrap();
    let client = LockClient::new(store);
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let mut connections = Vec::new();
    for url in &urls {
        let node = Client::open(url.as_str()).unwrap();
        connections.push(node.get_multiplexed_async_connection_with_config(&config).await.unwrap());
    }
    let manager = rslock::LockManager::new(urls.clone());

    println!("\none task, acquire and release");
    let mut healthy = 0.0;
    for _ in 0..3 {
        let floor =
            latency("5 parallel PINGs, the slowest, twice", 2000, |_| pings(connections.clone()));
        let floor = floor.await;
        healthy = latency("leasehold", 2000, |_| ours(client.clone(), name(0))).await;
        latency("rslock", 2000, |_| peer(manager.clone(), 0)).await;
        println!("  leasehold / PINGs: {:.2}", healthy / floor);
    }
    println!("\n64 tasks on names of their own, pairs");
    for _ in 0..2 {
        let own = client.clone();
        let own = rate("leasehold", move |task| ours(own.clone(), name(task))).await;
        let peers = manager.clone();
        let peers = rate("rslock", move |task| peer(peers.clone(), task)).await;
        println!("  leasehold / rslock: {:.2}", own / peers);
    }
    println!("\n16 tasks on one name");
    let before = calls(nodes).await;
    let own = handoffs("leasehold, one process", |task, seen, end| {
        contend(client.clone(), task, seen, end)
    });
    let own = own.await;
    let per = (calls(nodes).await - before) as f64 / (own.0 * RUN.as_secs_f64());
    println!("  scripts per handoff: {per:.1} on all nodes");
    let mut clients = Vec::new();
    for _ in 0..16 {
        clients.push(LockClient::new(backend_redlock::connect(&url).await.unwrap()));
    }
    let before = calls(nodes).await;
    let apart = handoffs("leasehold, a client per task", |task, seen, end| {
        contend(clients[task].clone(), task, seen, end)
    });
    let apart = apart.await;
    let per = (calls(nodes).await - before) as f64 / (apart.0 * RUN.as_secs_f64());
    println!("  scripts per handoff: {per:.1} on all nodes");
    let rival = handoffs("rslock, defaults", |task, seen, end| {
        let manager = manager.clone();
        async move {
            while Instant::now() < end {
                if let Ok(lock) = manager.lock("rslock one", LEASE).await {
                    seen.held(task);
                    seen.freeing();
                    manager.unlock(&lock).await;
                }
            }
        }
    });
    let rival = rival.await;
    println!(
        "  handoffs: one process {:.1}, a client each {:.1} times",
        own.0 / rival.0,
        apart.0 / rival.0
    );
    println!(
        "  p99: one process {:.3}, a client each {:.3} of it",
        own.1 / rival.1,
        apart.1 / rival.1
    );

    println!("\ntwo of five nodes paused");
    for node in &nodes[..2] {
        node.pause().unwrap();
    }
    ours(client.clone(), name(0)).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let degraded = latency("leasehold", 2000, |_| ours(client.clone(), name(0))).await;
    println!("  degraded / healthy: {:.2}", degraded / healthy);
    for node in &nodes[..2] {
        node.resume().unwrap();
    }
}

fn main() {
    let awake = Arc::new(AtomicBool::new(true));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let spinning: Vec<_> = (0..cores)
        .map(|_| {
            let awake = awake.clone();
            std::thread::spawn(move || {
                while awake.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            })
        })
        .collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let nodes = Redis::start_many(NODES, RedisOptions::new()).await.unwrap();
        measure(&nodes).await;
    });
    awake.store(false, Ordering::Relaxed);
    for thread in spinning {
        thread.join().unwrap();
    }
}
