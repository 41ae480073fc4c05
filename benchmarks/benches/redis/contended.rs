//! Many tasks on one name: who gets it, how often, and how soon after its release.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use futures_util::future::join_all;
use lock_core::LockClient;
use redis::aio::MultiplexedConnection;

use crate::{LEASE, WAIT, measure::quantile};

/// Who competes, by which means.
#[derive(Clone)]
pub(crate) enum Contender {
    Leasehold(LockClient),
    Rslock(rslock::LockManager),
    Distributed(Arc<distributed_lock_redis::RedisLockProvider>),
}

/// What a contender is told while it holds the lock and has given it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) task: usize,
    pub(crate) held: Duration,
    pub(crate) freeing: Duration,
}

impl Contender {
    pub(crate) async fn leasehold(url: &str) -> Self {
        Self::Leasehold(LockClient::new(backend_redis::connect(url).await.unwrap()))
    }

    /// With this pause between attempts, or the default.
    pub(crate) fn rslock(url: &str, pause: Option<Duration>) -> Self {
        let mut manager = rslock::LockManager::new(vec![url]);
        if let Some(pause) = pause {
            manager.set_retry(1, pause);
        }
        Self::Rslock(manager)
    }

    pub(crate) async fn distributed(url: &str) -> Self {
        let provider = distributed_lock_redis::RedisLockProvider::new(url.to_owned()).await;
        Self::Distributed(Arc::new(provider.unwrap()))
    }

    /// Takes the lock once, holds it for `hold`, and gives it back; nothing where it gave up waiting.
    async fn turn(&self, name: &str, task: usize, hold: Duration) -> Option<Turn> {
        let holding = async || {
            let held = clock();
            if !hold.is_zero() {
                tokio::time::sleep(hold).await;
            }
            Turn { task, held, freeing: clock() }
        };
        Some(match self {
            Self::Leasehold(client) => {
                let guard = client.lock(name).lease(LEASE).wait(WAIT).acquire().await.unwrap();
                let turn = holding().await;
                guard.release().await.unwrap();
                turn
            }
            Self::Rslock(manager) => {
                let lock = manager.lock(name, LEASE).await.ok()?;
                let turn = holding().await;
                manager.unlock(&lock).await;
                turn
            }
            Self::Distributed(provider) => {
                let lock = provider.create_lock(name);
                let handle = lock.acquire(Some(Duration::from_secs(5))).await.ok()?;
                let turn = holding().await;
                handle.release().await.ok();
                turn
            }
        })
    }
}

/// A clock that processes of one machine share.
pub(crate) fn clock() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Lets tasks, numbered from `first`, take turns for `span`: the contenders once each, or 16 tasks
/// of a single one.
pub(crate) async fn compete(
    contenders: &[Contender],
    tasks: usize,
    first: usize,
    name: &'static str,
    (span, hold, think): (Duration, Duration, Duration),
) -> Vec<Turn> {
    let (turns, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    join_all((0..tasks).map(|task| {
        let contender = contenders[task % contenders.len()].clone();
        let turns = turns.clone();
        tokio::spawn(async move {
            while start.elapsed() < span {
                if let Some(turn) = contender.turn(name, first + task, hold).await {
                    turns.lock().unwrap().push(turn);
                }
                if !think.is_zero() {
                    tokio::time::sleep(think).await;
                }
            }
        })
    }))
    .await;
    Arc::into_inner(turns).unwrap().into_inner().unwrap()
}

/// Changes of holder per second: who takes its own lock again hands nothing over.
pub(crate) fn handoffs(label: &str, turns: &mut [Turn]) -> f64 {
    turns.sort_unstable_by_key(|turn| turn.held);
    let [first, .., last] = turns else { panic!("{label}: nobody took a turn") };
    let seconds = (last.held - first.held).as_secs_f64();
    let changed = turns.windows(2).filter(|pair| pair[0].task != pair[1].task).count() as f64;
    let (changed, grants) = (changed / seconds, turns.len() as f64 / seconds);
    println!("{label:<46} {changed:>9.0} /s to another holder, of {grants:.0} grants/s");
    changed
}

/// Median and 99th percentile of the time from a release to the next one's turn, in µs.
pub(crate) fn wake_ups(label: &str, turns: &mut [Turn]) -> (f64, f64) {
    turns.sort_unstable_by_key(|turn| turn.held);
    let mut gaps: Vec<_> =
        turns.windows(2).map(|pair| pair[1].held.saturating_sub(pair[0].freeing)).collect();
    let (median, high) = (quantile(&mut gaps, 0.5), quantile(&mut gaps, 0.99));
    println!("{label:<46} p50 {median:>9.1} µs  p99 {high:>9.1} µs");
    (median, high)
}

/// Median of a round trip while the connection has nothing else to do, at the pace of the wake-ups.
pub(crate) async fn round_trip(mut connection: MultiplexedConnection) -> f64 {
    let mut spans = Vec::new();
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let start = Instant::now();
        let _: String = redis::cmd("PING").query_async(&mut connection).await.unwrap();
        spans.push(start.elapsed());
    }
    let micros = quantile(&mut spans, 0.5);
    println!("{:<46} p50 {micros:>9.1} µs", "one PING");
    micros
}
