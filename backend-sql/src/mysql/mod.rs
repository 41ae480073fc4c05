//! MySQL and MariaDB: locks in tables of a server that you have.
//!
//! ```no_run
//! # async fn example(pool: sqlx::MySqlPool) -> Result<(), lock_core::Error> {
//! use lock_core::{Init, LockClient};
//!
//! let backend = backend_sql::mysql::MysqlBuilder::with_pool(pool).build().await?;
//! backend.init(&Init::default()).await?; // Once: makes the tables.
//! let client = LockClient::new(backend);
//! # Ok(()) }
//! ```
//!
//! Leases run on the server's clock. Each attempt, release and batch of renewals is one statement
//! in its own transaction. After the first grant of a name, another statement checks the token
//! against the watermark.
//!
//! The client's own sessions wait for a locked row as long as a call may last
//! (`innodb_lock_wait_timeout` and `lock_wait_timeout`). In a pool of yours set the same, or the
//! server waits for 50 s after the client has given up.
//!
//! The session may have any time zone, SQL mode and isolation level. Its autocommit must be on, and
//! its variable `timestamp` must not be set. The client repeats a statement that lost a conflict.
//!
//! The client's own sessions use READ COMMITTED, unless the server has a binary log of statements
//! (`binlog_format=STATEMENT`), which does not allow it. Set it in a pool of yours, too: under
//! REPEATABLE READ, an attempt that waits for a row which somebody else has locked keeps others
//! from entering the queues of names beside it, for as long as it waits.
//!
//! There is no quarantine: exclusion needs grants that survive a crash of the server. The client
//! reads the server's settings, and [`Guarantees`](lock_core::Guarantees) withholds exclusion if
//! `innodb_flush_log_at_trx_commit` is not 1, if there is a binary log and `sync_binlog` is not 1,
//! in a Galera cluster, and with Group Replication. Exclusion does not hold over a failover to a
//! replica, or over a restore.
//!
//! # Privileges
//!
//! A client's user needs these privileges, if the tables' names begin with `leasehold`:
//!
//! ```sql
//! GRANT SELECT, INSERT, UPDATE, DELETE ON app.leasehold_locks TO worker;
//! GRANT SELECT, INSERT, UPDATE, DELETE ON app.leasehold_queue TO worker;
//! GRANT SELECT, INSERT, UPDATE, DELETE ON app.leasehold_records TO worker;
//! GRANT SELECT, UPDATE (watermark) ON app.leasehold_settings TO worker;
//! ```
//!
//! For [`MysqlFence`] it needs SELECT, INSERT and UPDATE on `leasehold_fence`. `init` needs
//! CREATE, and UPDATE of the settings.
//!
//! # TLS
//!
//! A server that is not verified can use up this process's memory: the driver joins packets of 16
//! MiB without end, and has no limit to set. The time limit of the call ends it.
//!
//! `ssl-mode` in the URL chooses the mode: `disabled`; `preferred` (default: TLS only if the server
//! has it); `required`; `verify_ca`; `verify_identity`. The first three check no certificate. Only
//! `verify_identity` checks that the certificate belongs to the host: with every other mode
//! somebody between client and server can read and change everything. The client trusts the
//! authorities that Mozilla trusts, and those in the PEM file `ssl-ca`. `ssl-cert` and `ssl-key`
//! are the client's own certificate and key. The provider of cryptography is as for PostgreSQL:
//! `verify_ca` needs one that the application has installed. An unknown mode, and a file that would
//! not be used, are refused.
//!
//! A client does not send a password that others could read on the way, or that another server
//! could ask for: if TLS is not demanded (`required` at least) and the host is not this machine,
//! the URL needs `plaintext=on`.
//!
//! # MySQL
//!
//! Tested on MariaDB. It needs JSON_TABLE: MySQL 8.0.4 or MariaDB 10.6. By its manual MySQL 8
//! differs in three points. Its users have `caching_sha2_password` by default, which this driver
//! supports over TLS and Unix sockets. Its binary log is on and `sync_binlog` is 1 by default. It
//! does not grant row locks in the order of the requests, on which nothing here relies.

mod backend;
pub(crate) mod config;
pub(crate) mod connection;
mod fence;
pub(crate) mod guarantees;
mod removals;
pub(crate) mod rows;
pub(crate) mod statements;
mod store;
mod waiting;

pub use self::{
    config::{MysqlBuilder, connect, schema},
    fence::MysqlFence,
};
