//! What a lock in PostgreSQL costs, beside the bare statements on an unlogged and on a logged table,
//! and beside sqlx's advisory lock, which writes nothing.
//!
//! `cargo bench -p benchmarks --bench postgres`

#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use backend_sql::{Strategy, postgres::PostgresBuilder};
use conformance_tests::kit::{Postgres, PostgresOptions, Server as _};
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use lock_core::{Backend, Init, LockClient};
use sqlx::{
    AssertSqlSafe, PgPool,
    postgres::{PgAdvisoryLock, PgPoolOptions},
};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A server that flushes as one in use does, and a pool that asks it for nothing else.
async fn start() -> (Postgres, PgPool) {
    let options = PostgresOptions::new().line("fsync = on").line("synchronous_commit = on");
    let server = Postgres::start(options).await.unwrap();
    let url = format!("postgres://postgres@{}/postgres", server.address());
    let pool = PgPoolOptions::new().max_connections(4).test_before_acquire(false);
    let pool = pool.connect(&url).await.unwrap();
    (server, pool)
}

async fn store(pool: &PgPool, strategy: Strategy) -> Arc<dyn Backend> {
    let prefix = strategy.to_string().replace('-', "_");
    let builder = PostgresBuilder::with_pool(pool.clone()).strategy(strategy);
    let store = builder.table_prefix(prefix).build().await.unwrap();
    store.init(&Init::default()).await.unwrap();
    store
}

/// The upsert and the conditional update that any lock in a table has to make.
async fn bare(pool: &PgPool, table: &str) {
    let upsert = format!(
        "INSERT INTO {table} AS l VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO UPDATE \
         SET owner = $2, token = greatest($3, l.token + 1), expires = $4 \
         WHERE l.owner IS NULL OR l.expires <= $5 RETURNING token"
    );
    let taken: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(upsert))
        .bind("job")
        .bind("0123456789abcdef0123456789abcdef")
        .bind(1_i64)
        .bind(20_i64)
        .bind(10_i64)
        .fetch_all(pool)
        .await
        .unwrap();
    assert_eq!(taken.len(), 1);
    let update =
        format!("UPDATE {table} SET owner = NULL WHERE name = $1 AND owner = $2 RETURNING token");
    let freed: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(update))
        .bind("job")
        .bind("0123456789abcdef0123456789abcdef")
        .fetch_all(pool)
        .await
        .unwrap();
    assert_eq!(freed.len(), 1);
}

fn uncontended(criterion: &mut Criterion) {
    let runtime = runtime();
    let (server, pool) = runtime.block_on(start());
    let mut group = criterion.benchmark_group("postgres: acquire + release");
    group.throughput(Throughput::Elements(1)).sampling_mode(SamplingMode::Flat);
    for (what, table, kind) in
        [("floor: unlogged", "floor", "UNLOGGED"), ("floor: logged", "logged", "")]
    {
        let make = format!(
            "CREATE {kind} TABLE {table} (name text PRIMARY KEY, owner text, token bigint, \
             expires bigint) WITH (fillfactor = 50)"
        );
        runtime.block_on(sqlx::query(AssertSqlSafe(make)).execute(&pool)).unwrap();
        group.bench_function(what, |bencher| {
            bencher.to_async(&runtime).iter(|| bare(&pool, table));
        });
    }
    for strategy in [Strategy::PrimaryKey, Strategy::Optimistic] {
        let client = LockClient::new(runtime.block_on(store(&pool, strategy)));
        group.bench_function(strategy.to_string(), |bencher| {
            bencher.to_async(&runtime).iter(async || {
                client.lock("job").acquire().await.unwrap().release().await.unwrap();
            });
        });
    }
    let advisory = PgAdvisoryLock::new("job");
    group.bench_function("peer: sqlx PgAdvisoryLock", |bencher| {
        bencher.to_async(&runtime).iter(async || {
            let connection = pool.acquire().await.unwrap();
            let guard = advisory.acquire(connection).await.unwrap();
            guard.release_now().await.unwrap();
        });
    });
    group.finish();
    runtime.block_on(pool.close());
    drop(server);
}

criterion_group!(benches, uncontended);
criterion_main!(benches);
