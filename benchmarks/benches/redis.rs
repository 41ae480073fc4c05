//! One Redis: floors, ours and peers in one run; medians. `cargo bench -p benchmarks --bench redis`.
//!
//! One thread per core spins with `yield_now`, so that no core goes idle: an idle virtual CPU adds up
//! to 70 µs to each round trip, and that would be measured instead. Handoffs are counted only where
//! the holder changes: who takes its own lock again hands nothing over.
#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use conformance_tests::kit::{Redis, RedisOptions, Server as _};
use distributed_lock_core::traits::DistributedLock as _;
use lock_core::{Backend, Init, LockClient, LockName};
use redis::{AsyncConnectionConfig, Client, Script, aio::MultiplexedConnection};

const LEASE: Duration = Duration::from_secs(10);
const WAIT: Duration = Duration::from_secs(60);
const RUN: Duration = Duration::from_secs(2);

fn median(mut spans: Vec<Duration>) -> Duration {
    spans.sort_unstable();
    spans[spans.len() / 2]
}

/// Measures `rounds` calls one after the other, in slices of each kind in turn.
async fn latency<F, Fut>(label: &str, rounds: usize, mut call: F) -> f64
where
    F: FnMut(usize) -> Fut,
    Fut: Future<Output = ()>,
{
    let mut spans = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let start = Instant::now();
        call(round).await;
        spans.push(start.elapsed());
    }
    let micros = median(spans).as_secs_f64() * 1e6;
    println!("{label:<46} {micros:>9.1} µs");
    micros
}

/// How often per second 64 tasks together finish `call`, each on its own name.
async fn rate<F, Fut>(label: &str, call: F) -> f64
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (count, end) = (Arc::new(AtomicU64::new(0)), Instant::now() + RUN);
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let (count, call) = (count.clone(), call.clone());
            tokio::spawn(async move {
                while Instant::now() < end {
                    call(task).await;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let rate = count.load(Ordering::Relaxed) as f64 / RUN.as_secs_f64();
    println!("{label:<46} {rate:>9.0} /s");
    rate
}

/// Changes of holder per second among 16 tasks; each calls `held` while it holds.
#[derive(Clone, Default)]
struct Handoffs {
    last: Arc<Mutex<Option<usize>>>,
    changed: Arc<AtomicU64>,
    grants: Arc<AtomicU64>,
}

impl Handoffs {
    fn held(&self, task: usize) {
        self.grants.fetch_add(1, Ordering::Relaxed);
        if self.last.lock().unwrap().replace(task) != Some(task) {
            self.changed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn handoffs<F, Fut>(label: &str, run: F) -> f64
where
    F: Fn(usize, Handoffs, Instant) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (seen, start) = (Handoffs::default(), Instant::now());
    let tasks: Vec<_> =
        (0..16).map(|task| tokio::spawn(run(task, seen.clone(), start + RUN))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let seconds = start.elapsed().as_secs_f64();
    let changed = seen.changed.load(Ordering::Relaxed) as f64 / seconds;
    let grants = seen.grants.load(Ordering::Relaxed) as f64 / seconds;
    println!("{label:<46} {changed:>9.0} /s to another holder, of {grants:.0} grants/s");
    changed
}

#[derive(Clone)]
struct Floor {
    connection: MultiplexedConnection,
    minting: bool,
    take: Arc<Script>,
    drop: Arc<Script>,
}

impl Floor {
    fn new(connection: MultiplexedConnection, minting: bool) -> Self {
        let take = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
            local t = redis.call('TIME')
            local n = math.max(t[1] * 1000000 + t[2], (tonumber(redis.call('GET', KEYS[2])) or 0) + 1)
            local text = string.format('%.0f', n)
            redis.call('SET', KEYS[2], text)
            redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
            return text";
        let drop =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
            return 0";
        Self {
            connection,
            minting,
            take: Arc::new(Script::new(take)),
            drop: Arc::new(Script::new(drop)),
        }
    }

    async fn pair(mut self, task: usize) {
        let key = format!("floor:{task}");
        if self.minting {
            let mut call = self.take.prepare_invoke();
            call.key(&key).key("floor:mark").arg("owner").arg(10_000);
            let _: redis::Value = call.invoke_async(&mut self.connection).await.unwrap();
        } else {
            let mut set = redis::cmd("SET");
            set.arg(&key).arg("owner").arg("NX").arg("PX").arg(10_000);
            let _: redis::Value = set.query_async(&mut self.connection).await.unwrap();
        }
        let mut call = self.drop.prepare_invoke();
        let _: i64 = call.key(&key).arg("owner").invoke_async(&mut self.connection).await.unwrap();
    }

    async fn pings(mut self) {
        for _ in 0..2 {
            let _: String = redis::cmd("PING").query_async(&mut self.connection).await.unwrap();
        }
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

fn calls(stats: &str) -> u64 {
    let of = |name: &str| {
        let field = format!("cmdstat_{name}:calls=");
        let value = stats.lines().find_map(|line| line.strip_prefix(&field)?.split(',').next());
        value.map_or(0, |value| value.parse::<u64>().unwrap())
    };
    of("evalsha") + of("eval")
}

async fn measure(server: &Redis) {
    let url = format!("redis://{}", server.address());
    let store: Arc<dyn Backend> = backend_redis::connect(&url).await.unwrap();
    store.init(&Init { first_use: true, ..Init::default() }).await.unwrap();
    let client = LockClient::new(store);
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = Client::open(url.as_str()).unwrap();
    let connection =
        connection.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    let bare = Floor::new(connection.clone(), false);
    let minting = Floor::new(connection, true);
    let manager = rslock::LockManager::new(vec![url.as_str()]);
    let distributed = distributed_lock_redis::RedisLockProvider::new(url.clone()).await.unwrap();

    println!("\none task, acquire and release, median");
    for _ in 0..2 {
        latency("two PINGs", 3000, |_| bare.clone().pings()).await;
        let floor =
            latency("bare SET NX PX + compare-and-delete", 3000, |_| bare.clone().pair(0)).await;
        latency("the same, minting a token", 3000, |_| minting.clone().pair(0)).await;
        let own = latency("leasehold", 3000, |_| ours(client.clone(), name(0))).await;
        latency("rslock", 3000, |_| peer(manager.clone(), 0)).await;
        println!("  leasehold / bare pair: {:.2}", own / floor);
    }
    println!("\n64 tasks on names of their own, pairs");
    for _ in 0..2 {
        let floor = bare.clone();
        rate("bare pair", move |task| floor.clone().pair(task)).await;
        let floor = minting.clone();
        let floor = rate("minting pair", move |task| floor.clone().pair(task)).await;
        let own = client.clone();
        let own = rate("leasehold", move |task| ours(own.clone(), name(task))).await;
        let peers = manager.clone();
        rate("rslock", move |task| peer(peers.clone(), task)).await;
        println!("  leasehold / minting pair: {:.2}", own / floor);
    }
    println!("\n16 tasks on one name");
    let before = calls(&server.cli(&["INFO", "commandstats"]).await.unwrap());
    let own = handoffs("leasehold, one process", |task, seen, end| {
        let client = client.clone();
        async move {
            while Instant::now() < end {
                let lock = client.lock(LockName::new("one").unwrap());
                let guard = lock.lease(LEASE).wait(WAIT).acquire().await.unwrap();
                seen.held(task);
                guard.release().await.unwrap();
            }
        }
    })
    .await;
    let after = calls(&server.cli(&["INFO", "commandstats"]).await.unwrap());
    let per = (after - before) as f64 / (own * RUN.as_secs_f64());
    println!("  scripts per handoff: {per:.2}");
    let mut clients = Vec::new();
    for _ in 0..16 {
        clients.push(LockClient::new(backend_redis::connect(&url).await.unwrap()));
    }
    let before = calls(&server.cli(&["INFO", "commandstats"]).await.unwrap());
    let apart = handoffs("leasehold, a connection per task", |task, seen, end| {
        let client = clients[task].clone();
        async move {
            while Instant::now() < end {
                let lock = client.lock(LockName::new("apart").unwrap());
                let guard = lock.lease(LEASE).wait(WAIT).acquire().await.unwrap();
                seen.held(task);
                guard.release().await.unwrap();
            }
        }
    })
    .await;
    let after = calls(&server.cli(&["INFO", "commandstats"]).await.unwrap());
    let per = (after - before) as f64 / (apart * RUN.as_secs_f64());
    println!("  scripts per handoff: {per:.2}");
    for (label, delay) in
        [("rslock, defaults", None), ("rslock, 5 ms", Some(5)), ("rslock, 1 ms", Some(1))]
    {
        let mut manager = manager.clone();
        if let Some(millis) = delay {
            manager.set_retry(1, Duration::from_millis(millis));
        }
        let peer = handoffs(label, |task, seen, end| {
            let manager = manager.clone();
            async move {
                while Instant::now() < end {
                    if let Ok(lock) = manager.lock("rslock one", LEASE).await {
                        seen.held(task);
                        manager.unlock(&lock).await;
                    }
                }
            }
        })
        .await;
        println!("  leasehold / this: {:.1}", own / peer.max(0.5));
    }
    let peer = handoffs("distributed-lock, Redis, defaults", |task, seen, end| {
        let lock = {
            use distributed_lock_core::traits::LockProvider as _;
            distributed.create_lock("distributed one")
        };
        async move {
            while Instant::now() < end {
                if let Ok(handle) = lock.acquire(Some(Duration::from_secs(5))).await {
                    seen.held(task);
                    use distributed_lock_core::traits::LockHandle as _;
                    handle.release().await.ok();
                }
            }
        }
    })
    .await;
    println!("  leasehold / this: {:.1}", own / peer.max(0.5));
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
        let server = Redis::start(RedisOptions::new()).await.unwrap();
        measure(&server).await;
    });
    awake.store(false, Ordering::Relaxed);
    for thread in spinning {
        thread.join().unwrap();
    }
}
