//! What a lock in MariaDB costs, beside the bare statements, with and without a flush for each commit.
//!
//! `cargo bench -p benchmarks --bench mysql`

#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use backend_sql::{Strategy, mysql::MysqlBuilder};
use conformance_tests::kit::{Mariadb, MariadbOptions, Server as _};
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use lock_core::{Backend, Init, LockClient};
use sqlx::{MySqlPool, mysql::MySqlPoolOptions};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A server that flushes as it is told, and a pool that asks it for nothing else.
async fn start(flush: u8) -> (Mariadb, MySqlPool) {
    let options = MariadbOptions::new().flag(format!("--innodb-flush-log-at-trx-commit={flush}"));
    let server = Mariadb::start(options).await.unwrap();
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
    let pool = MySqlPoolOptions::new().max_connections(4).test_before_acquire(false);
    let pool = pool.connect(&url).await.unwrap();
    let make = "CREATE TABLE floor (name VARBINARY(255) PRIMARY KEY, owner VARBINARY(32), \
                token BIGINT NOT NULL, expires BIGINT NOT NULL) ENGINE = InnoDB";
    sqlx::query(make).execute(&pool).await.unwrap();
    (server, pool)
}

async fn store(pool: &MySqlPool, strategy: Strategy) -> Arc<dyn Backend> {
    let prefix = strategy.to_string().replace('-', "_");
    let builder = MysqlBuilder::with_pool(pool.clone()).strategy(strategy);
    let store = builder.table_prefix(prefix).build().await.unwrap();
    store.init(&Init::default()).await.unwrap();
    store
}

/// The upsert and the conditional update that any lock in a table has to make.
async fn bare(pool: &MySqlPool) {
    let upsert = "INSERT INTO floor VALUES (?, ?, LAST_INSERT_ID(?), ?) ON DUPLICATE KEY UPDATE \
                  token = IF(expires <= ?, LAST_INSERT_ID(GREATEST(?, token + 1)), token), \
                  owner = IF(expires <= ?, ?, owner), expires = IF(expires <= ?, ?, expires)";
    let owner = "0123456789abcdef0123456789abcdef";
    let taken = sqlx::query(upsert)
        .bind("job")
        .bind(owner)
        .bind(1_i64)
        .bind(20_i64)
        .bind(10_i64)
        .bind(1_i64)
        .bind(10_i64)
        .bind(owner)
        .bind(10_i64)
        .bind(20_i64)
        .execute(pool)
        .await
        .unwrap();
    assert_ne!(taken.last_insert_id(), 0);
    let update = "UPDATE floor SET owner = NULL, expires = 0 WHERE name = ? AND owner = ?";
    let freed = sqlx::query(update).bind("job").bind(owner).execute(pool).await.unwrap();
    assert_eq!(freed.rows_affected(), 1);
}

fn uncontended(criterion: &mut Criterion) {
    let runtime = runtime();
    for flush in [1, 2] {
        let (server, pool) = runtime.block_on(start(flush));
        let name = format!("mysql: acquire + release, innodb_flush_log_at_trx_commit={flush}");
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1)).sampling_mode(SamplingMode::Flat);
        group.bench_function("floor", |bencher| {
            bencher.to_async(&runtime).iter(|| bare(&pool));
        });
        for strategy in [Strategy::PrimaryKey, Strategy::Optimistic] {
            let client = LockClient::new(runtime.block_on(store(&pool, strategy)));
            group.bench_function(strategy.to_string(), |bencher| {
                bencher.to_async(&runtime).iter(async || {
                    client.lock("job").acquire().await.unwrap().release().await.unwrap();
                });
            });
        }
        group.finish();
        runtime.block_on(pool.close());
        drop(server);
    }
}

criterion_group!(benches, uncontended);
criterion_main!(benches);
