//! Stores in a database, through a pool that others use, too.

use std::sync::Arc;

use backend_sql::{Strategy, mysql::MysqlBuilder, postgres::PostgresBuilder};
use conformance_tests::kit::{Mariadb, MariadbOptions, Server as _};
use lock_core::{Backend, Init};
use sqlx::{MySqlPool, PgPool, mysql::MySqlPoolOptions, postgres::PgPoolOptions};

/// Each strategy has tables of its own.
fn prefix(strategy: Strategy) -> String {
    strategy.to_string().replace('-', "_")
}

/// A pool that asks the server for nothing but what it is asked for.
pub async fn postgres_pool(url: &str, connections: u32) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(connections).test_before_acquire(false);
    pool.connect(url).await.unwrap()
}

/// A MariaDB whose commits are flushed as `innodb_flush_log_at_trx_commit` says, and such a pool.
pub async fn mariadb(flush: u8) -> (Mariadb, MySqlPool) {
    let options = MariadbOptions::new()
        .flag(format!("--innodb-flush-log-at-trx-commit={flush}"))
        // MariaDB's own, not the kit's small ones, with which it reads and writes pages all the time.
        .flag("--innodb-buffer-pool-size=128M")
        .flag("--innodb-log-file-size=96M");
    let server = Mariadb::start(options).await.unwrap();
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
    let pool = MySqlPoolOptions::new().max_connections(4).test_before_acquire(false);
    (server, pool.connect(&url).await.unwrap())
}

/// A store in PostgreSQL.
pub async fn postgres_store(pool: &PgPool, strategy: Strategy) -> Arc<dyn Backend> {
    let builder = PostgresBuilder::with_pool(pool.clone()).strategy(strategy);
    let store = builder.table_prefix(prefix(strategy)).build().await.unwrap();
    store.init(&Init::default()).await.unwrap();
    store
}

/// A store in MySQL or MariaDB.
pub async fn mysql_store(pool: &MySqlPool, strategy: Strategy) -> Arc<dyn Backend> {
    let builder = MysqlBuilder::with_pool(pool.clone()).strategy(strategy);
    let store = builder.table_prefix(prefix(strategy)).build().await.unwrap();
    store.init(&Init::default()).await.unwrap();
    store
}
