//! What a lock costs in phase `Both` of a migration, beside each of its stores alone: at most the sum of
//! both, and one raise.
//!
//! `cargo bench -p benchmarks --bench migration`

#![allow(clippy::unwrap_used, missing_docs)]

use std::{any::Any, sync::Arc};

use conformance_tests::kit::{
    Etcd, EtcdOptions, Postgres, PostgresOptions, Redis, RedisOptions, Server as _,
};
use criterion::{
    BenchmarkGroup, Criterion, SamplingMode, criterion_group, criterion_main, measurement::WallTime,
};
use lock_core::{
    Backend, Env as _, FencingToken, Init, LockClient, LockName, Migration, OwnerId, OwnerLabel,
    Phase, Request, SystemEnv,
};
use tokio::runtime::{Builder, Runtime};

type Running = (Arc<dyn Backend>, Box<dyn Any>);

async fn ready(store: Arc<dyn Backend>) -> Arc<dyn Backend> {
    store.init(&Init { first_use: true, ..Init::default() }).await.unwrap();
    store
}

async fn redis() -> Running {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}", server.address());
    (ready(backend_redis::connect(&url).await.unwrap()).await, Box::new(server))
}

async fn etcd() -> Running {
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let url = format!("etcd://{}", etcd.endpoints()[0]);
    (ready(backend_etcd::connect(&url).await.unwrap()).await, Box::new(etcd))
}

async fn postgres() -> Running {
    let server = Postgres::start(PostgresOptions::new()).await.unwrap();
    let url = format!("postgres://postgres@{}/postgres", server.address());
    (ready(backend_sql::postgres::connect(&url).await.unwrap()).await, Box::new(server))
}

async fn sqlite() -> Running {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    (ready(backend_sql::sqlite::connect(&url).await.unwrap()).await, Box::new(folder))
}

fn locking(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    what: &str,
    store: Arc<dyn Backend>,
) {
    let client = LockClient::new(store);
    group.bench_function(format!("{what}: acquire + release"), |bencher| {
        bencher.to_async(runtime).iter(async || {
            client.lock("job").acquire().await.unwrap().release().await.unwrap();
        });
    });
}

/// One raise, each time to a higher token.
fn raising(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    what: &str,
    store: &Arc<dyn Backend>,
) {
    let name = LockName::new("raised").unwrap();
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::new("bench").unwrap();
    let lease = store.guarantees().longest_lease;
    let request = Request::new(name, owner, label, lease, SystemEnv.now());
    let grant = runtime.block_on(store.try_acquire(&request)).unwrap().granted().unwrap();
    let grant = &grant;
    group.bench_function(format!("{what}: raise"), |bencher| {
        bencher.to_async(runtime).iter(async || {
            let token = FencingToken::new(SystemEnv.wall_micros() + 1_000).unwrap();
            store.raise(grant, token).await.unwrap();
        });
    });
    runtime.block_on(store.force_release(&request.name)).unwrap();
}

fn pair(criterion: &mut Criterion, names: [&str; 2], start: impl AsyncFn() -> [Running; 2]) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let [from, to] = runtime.block_on(start());
    let mut group = criterion.benchmark_group(format!("{} to {}", names[0], names[1]));
    group.sampling_mode(SamplingMode::Flat);
    for (name, (store, _)) in names.iter().zip([&from, &to]) {
        locking(&mut group, &runtime, name, Arc::clone(store));
        raising(&mut group, &runtime, name, store);
    }
    let both = Migration::new(Arc::clone(&from.0), Arc::clone(&to.0), Phase::Both);
    let both = runtime.block_on(both).unwrap();
    locking(&mut group, &runtime, "both", Arc::new(both));
    group.finish();
    drop(runtime);
}

fn overhead(criterion: &mut Criterion) {
    pair(criterion, ["redis", "etcd"], async || [redis().await, etcd().await]);
    pair(criterion, ["sqlite", "postgres"], async || [sqlite().await, postgres().await]);
}

criterion_group!(benches, overhead);
criterion_main!(benches);
