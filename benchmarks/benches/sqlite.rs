//! What a lock in SQLite costs, beside the bare statements through a pool of the same settings.
//!
//! `cargo bench -p benchmarks --bench sqlite`

#![allow(clippy::unwrap_used, missing_docs)]

use std::{sync::Arc, time::Duration};

use backend_sql::{Strategy, sqlite::SqliteBuilder};
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use lock_core::{FencingToken, Guard, LockClient};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::runtime::{Builder, Runtime};

/// A task on a thread of its own, beside the connection's.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// As the backend's own pool.
async fn pool(path: &std::path::Path) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal);
    SqlitePoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false)
        .connect_with(options)
        .await
        .unwrap()
}

/// The floor is one upsert and one conditional update: what any lock in a table has to write.
fn uncontended(criterion: &mut Criterion) {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let mut group = criterion.benchmark_group("sqlite: acquire + release");
    group.throughput(Throughput::Elements(1)).sampling_mode(SamplingMode::Flat);

    let bare = runtime.block_on(pool(&folder.path().join("bare.db")));
    let table = "CREATE TABLE lock (name TEXT PRIMARY KEY, owner TEXT, token INTEGER, expires INTEGER) \
                 STRICT, WITHOUT ROWID";
    runtime.block_on(sqlx::query(table).execute(&bare)).unwrap();
    group.bench_function("floor: upsert + conditional update", |bencher| {
        bencher.to_async(&runtime).iter(async || {
            let _: Option<i64> = sqlx::query_scalar(
                "INSERT INTO lock AS l VALUES (?1, ?2, ?3, ?4) ON CONFLICT (name) DO UPDATE \
                 SET owner = ?2, token = max(?3, l.token + 1), expires = ?4 \
                 WHERE l.owner IS NULL OR l.expires <= ?5 RETURNING token",
            )
            .bind("job")
            .bind("0123456789abcdef0123456789abcdef")
            .bind(1_i64)
            .bind(20_i64)
            .bind(10_i64)
            .fetch_optional(&bare)
            .await
            .unwrap();
            let _: Option<i64> = sqlx::query_scalar(
                "UPDATE lock SET owner = NULL WHERE name = ?1 AND owner = ?2 RETURNING token",
            )
            .bind("job")
            .bind("0123456789abcdef0123456789abcdef")
            .fetch_optional(&bare)
            .await
            .unwrap();
        });
    });
    for strategy in [Strategy::PrimaryKey, Strategy::Optimistic] {
        let path = folder.path().join(format!("{strategy}.db"));
        let builder = SqliteBuilder::new(path).strategy(strategy);
        let client = LockClient::new(runtime.block_on(builder.build()).unwrap());
        group.bench_function(format!("{strategy}"), |bencher| {
            bencher.to_async(&runtime).iter(async || {
                client.lock("job").acquire().await.unwrap().release().await.unwrap();
            });
        });
    }
    group.finish();
}

/// Sixteen tasks of one process take turns. The floor is the same number of uncontended locks.
fn handoff(criterion: &mut Criterion) {
    const TASKS: u64 = 16;
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let builder = SqliteBuilder::new(folder.path().join("locks.db"));
    let client = LockClient::new(runtime.block_on(builder.build()).unwrap());
    let mut group = criterion.benchmark_group("sqlite: handoff, 16 tasks");
    group.throughput(Throughput::Elements(1)).sample_size(10).sampling_mode(SamplingMode::Flat);
    for (what, names) in [("floor: names of their own", TASKS), ("one name", 1)] {
        group.bench_function(what, |bencher| {
            bencher.to_async(&runtime).iter_custom(async |turns| {
                let started = std::time::Instant::now();
                let tasks: Vec<_> = (0..TASKS)
                    .map(|task| {
                        let client = client.clone();
                        tokio::spawn(async move {
                            for _ in 0..turns.div_ceil(TASKS) {
                                let name = format!("job {}", task % names);
                                client.lock(name).acquire().await.unwrap().release().await.unwrap();
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
    }
    group.finish();
}

/// One batch that renews 10,000 locks. The floor is one bare update of as many rows.
fn renewal(criterion: &mut Criterion) {
    const LOCKS: usize = 10_000;
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let lease = Duration::from_secs(30);
    let mut group = criterion.benchmark_group("sqlite: renewal of 10,000 held locks");
    group.throughput(Throughput::Elements(LOCKS as u64)).sample_size(10);
    let store = runtime.block_on(SqliteBuilder::new(&path).build()).unwrap();
    let client = LockClient::new(Arc::clone(&store));
    let guards: Vec<Guard> = runtime.block_on(async {
        let mut guards = Vec::new();
        for at in 0..LOCKS {
            guards.push(client.lock(format!("job {at}")).lease(lease).acquire().await.unwrap());
        }
        guards
    });
    let bare = runtime.block_on(pool(&path));
    group.bench_function("floor: one bare update", |bencher| {
        bencher.to_async(&runtime).iter(async || {
            let sql = "UPDATE leasehold_locks SET expires_2 = expires_2 + 1";
            sqlx::query(sql).execute(&bare).await.unwrap();
        });
    });
    let grants: Vec<_> = guards.iter().map(grant_of).collect();
    group.bench_function("one batch", |bencher| {
        bencher.to_async(&runtime).iter(async || {
            let grants: Vec<_> = grants.iter().collect();
            let now = lock_core::Env::now(&lock_core::SystemEnv);
            let answers = store.renew(&grants, now).await;
            assert!(matches!(answers[0], lock_core::Renewal::Renewed { .. }));
        });
    });
    group.finish();
    drop(guards);
}

/// The grant behind a guard, as the renewer has it.
fn grant_of(guard: &Guard) -> lock_core::Grant {
    let request = lock_core::Request::new(
        guard.name().clone(),
        guard.owner(),
        lock_core::OwnerLabel::of_this_process(),
        Duration::from_secs(30),
        lock_core::Env::now(&lock_core::SystemEnv),
    );
    lock_core::Grant::new(&request, FencingToken::ZERO)
}

criterion_group!(benches, uncontended, handoff, renewal);
criterion_main!(benches);
