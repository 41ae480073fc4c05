//! What the core costs over a store that costs nothing: uncontended locks, handoffs between tasks,
//! and the renewal of many held locks, each beside its floor in the same run.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    collections::HashMap,
    hint::black_box,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lock_core::{
    Backend, Env, Grant, LockClient, LockName, Memory, OwnerId, OwnerLabel, Request, SystemEnv,
};
use tokio::runtime::Builder;

/// One task on one core. The floor is what any lock in memory has to do: read both clocks, draw an
/// owner, put an entry into a map and take it out again.
fn uncontended(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let client = LockClient::new(Arc::new(Memory::new()));
    let name = LockName::new("job").unwrap();
    let mut group = criterion.benchmark_group("uncontended");
    group.throughput(Throughput::Elements(1));
    group.bench_function("floor: map entry, clocks, owner", |bencher| {
        let map = Mutex::new(HashMap::new());
        bencher.iter(|| {
            let (now, wall) = (SystemEnv.now(), SystemEnv.wall_micros());
            let owner = SystemEnv.random();
            map.lock().unwrap().insert(name.clone(), (owner, now, wall));
            black_box(map.lock().unwrap().remove(&name));
        });
    });
    group.bench_function("try_acquire + release", |bencher| {
        bencher.to_async(&runtime).iter(async || {
            let guard = client.lock(&name).try_acquire().await.unwrap().guard().unwrap();
            guard.release().await.unwrap();
        });
    });
    group.bench_function("acquire + release", |bencher| {
        bencher.to_async(&runtime).iter(async || {
            client.lock(&name).acquire().await.unwrap().release().await.unwrap();
        });
    });
    group.finish();
}

/// Sixteen tasks take turns. The floor is tokio's own fair mutex.
fn handoff(criterion: &mut Criterion) {
    const TASKS: u64 = 16;
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("handoff, 16 tasks");
    group.throughput(Throughput::Elements(1));
    group.bench_function("floor: tokio mutex", |bencher| {
        bencher.to_async(&runtime).iter_custom(async |turns| {
            let mutex = Arc::new(tokio::sync::Mutex::new(()));
            let started = Instant::now();
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| {
                    let mutex = Arc::clone(&mutex);
                    tokio::spawn(async move {
                        for _ in 0..turns.div_ceil(TASKS) {
                            let _turn = mutex.lock().await;
                            tokio::task::yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            started.elapsed()
        });
    });
    group.bench_function("one client", |bencher| {
        bencher.to_async(&runtime).iter_custom(async |turns| {
            let client = LockClient::new(Arc::new(Memory::new()));
            let started = Instant::now();
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| {
                    let client = client.clone();
                    tokio::spawn(async move {
                        for _ in 0..turns.div_ceil(TASKS) {
                            let guard = client.lock("job").acquire().await.unwrap();
                            tokio::task::yield_now().await;
                            guard.release().await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            started.elapsed()
        });
    });
    group.finish();
}

/// One batch of 10,000 renewals, as the renewer sends them. The floor is the store's own part.
fn renewal(criterion: &mut Criterion) {
    const LOCKS: usize = 10_000;
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("renewal of 10,000 held locks");
    group.sample_size(10).throughput(Throughput::Elements(LOCKS as u64));
    group.bench_function("floor: the store alone", |bencher| {
        let memory = Memory::new();
        let grants: Vec<Grant> = runtime.block_on(async {
            let mut grants = Vec::new();
            for at in 0..LOCKS {
                let request = Request::new(
                    LockName::new(format!("job {at}")).unwrap(),
                    OwnerId::from_bits(SystemEnv.random()),
                    OwnerLabel::of_this_process(),
                    Duration::from_secs(30),
                    SystemEnv.now(),
                );
                grants.push(memory.try_acquire(&request).await.unwrap().granted().unwrap());
            }
            grants
        });
        bencher.to_async(&runtime).iter(async || {
            let grants: Vec<&Grant> = grants.iter().collect();
            black_box(memory.renew(&grants, SystemEnv.now()).await);
        });
    });
    group.bench_function("processor time per renewal round of a client", |bencher| {
        bencher.to_async(&runtime).iter_custom(async |rounds| {
            // A short lease makes many rounds in little time; only processor time is counted.
            let lease = Duration::from_millis(1_500);
            let client = LockClient::new(Arc::new(Memory::new()));
            let mut guards = Vec::new();
            for at in 0..LOCKS {
                guards.push(client.lock(format!("job {at}")).lease(lease).acquire().await.unwrap());
            }
            let before = cpu_time();
            tokio::time::sleep(Duration::from_secs(2)).await;
            let per_second = (cpu_time() - before) / 2;
            assert!(guards.iter().all(lock_core::Guard::is_valid));
            // Renewal happens about every 0.44 s: seven eighths of a third of the lease.
            per_second.mul_f64(0.4375) * u32::try_from(rounds).unwrap()
        });
    });
    group.finish();
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

criterion_group!(benches, uncontended, handoff, renewal);
criterion_main!(benches);
