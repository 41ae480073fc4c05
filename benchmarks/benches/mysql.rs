//! What a lock in MariaDB costs, beside the bare statements, with and without a flush for each commit.
//!
//! `cargo bench -p benchmarks --bench mysql [ROUNDS]`

#![allow(clippy::unwrap_used, missing_docs)]

use std::{sync::Arc, time::Duration};

use backend_sql::{Strategy, mysql::MysqlBuilder};
use benchmarks::{Meter, Round, Table};
use conformance_tests::kit::{Mariadb, MariadbOptions, Server as _};
use lock_core::{Backend, Init, LockClient};
use sqlx::{MySqlPool, mysql::MySqlPoolOptions};
use tokio::runtime::Builder;

const SPAN: Duration = Duration::from_millis(300);

/// By the scheduler's own account of the threads.
struct Busy<'a>(&'a Mariadb);

impl Meter for Busy<'_> {
    fn read(&self) -> (Duration, Duration) {
        let of = |pid: u32| {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            threads
                .filter_map(|thread| {
                    // A thread that has ended is busy no more.
                    let text =
                        std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
                    text.split(' ').next()?.parse::<u64>().ok()
                })
                .sum()
        };
        let server = self.0.process().pid().unwrap();
        (Duration::from_nanos(of(std::process::id())), Duration::from_nanos(of(server)))
    }
}

/// A server that flushes as it is told, and a pool that asks it for nothing else.
async fn start(flush: u8) -> (Mariadb, MySqlPool) {
    let options = MariadbOptions::new()
        .flag(format!("--innodb-flush-log-at-trx-commit={flush}"))
        // MariaDB's own, not the kit's small ones, with which it reads and writes pages all the time.
        .flag("--innodb-buffer-pool-size=128M")
        .flag("--innodb-log-file-size=96M");
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

async fn uncontended(flush: u8, rounds: usize) {
    let (server, pool) = start(flush).await;
    let mut clients = Vec::new();
    for strategy in [Strategy::PrimaryKey, Strategy::Optimistic] {
        clients.push((strategy.to_string(), LockClient::new(store(&pool, strategy).await)));
    }
    let mut table = Table::default();
    let meter = Busy(&server);
    for round in 0..=rounds {
        let mut add = |name: &str, measured: Round| {
            // The first one warms up.
            if round > 0 {
                table.add(name, measured);
            }
        };
        add("floor", Round::of(&meter, SPAN, async || bare(&pool).await).await);
        for (name, client) in &clients {
            let lock = Round::of(&meter, SPAN, async || {
                client.lock("job").acquire().await.unwrap().release().await.unwrap();
            });
            add(name, lock.await);
        }
        let (_, client) = &clients[0];
        let mut count = 0;
        let fresh = Round::of(&meter, SPAN, async || {
            count += 1;
            let lock = client.lock(format!("{round}/{count}"));
            lock.acquire().await.unwrap().release().await.unwrap();
        });
        add("primary-key, each name for the first time", fresh.await);
    }
    table.print(&format!(
        "acquire + release, nobody else wants it, innodb_flush_log_at_trx_commit={flush}"
    ));
    pool.close().await;
}

fn main() {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(9);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for flush in [1, 2] {
            uncontended(flush, rounds).await;
        }
    });
}
