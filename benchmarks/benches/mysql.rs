//! What a lock in MariaDB costs, beside the bare statements, with and without a flush for each commit.
//!
//! `cargo bench -p benchmarks --bench mysql [ROUNDS]`

#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use backend_sql::Strategy;
use benchmarks::{Meter, Round, Table, bare, mariadb, mysql_store};
use conformance_tests::kit::{Mariadb, Server as _};
use lock_core::LockClient;
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

async fn uncontended(flush: u8, rounds: usize) {
    let (server, pool) = mariadb(flush).await;
    let floor = bare::Mysql::new(&pool).await;
    let mut clients = Vec::new();
    for strategy in [Strategy::PrimaryKey, Strategy::Optimistic] {
        clients.push((strategy.to_string(), LockClient::new(mysql_store(&pool, strategy).await)));
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
        add("floor", Round::of(&meter, SPAN, async || floor.clone().pair().await).await);
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
