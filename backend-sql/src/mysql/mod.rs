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
//! Leases run on the server's clock. Each attempt, release and batch of renewals is one statement in a
//! transaction of its own, whatever the session's time zone, SQL mode and isolation level; its
//! autocommit has to be on, and its variable `timestamp` not set. Conflicts are repeated inside.
//!
//! There is no quarantine: exclusion rests on grants outliving a crash. What the server's settings say
//! of that is read into [`Guarantees`](lock_core::Guarantees), and exclusion is withheld where
//! `innodb_flush_log_at_trx_commit` is not 1, where there is a binary log and `sync_binlog` is not 1, and
//! in a Galera cluster. Nor does it hold over a failover to a replica or a restore.
//!
//! # Privileges
//!
//! A client's user needs, and `leasehold` is what the tables' names begin with:
//!
//! ```sql
//! GRANT SELECT, INSERT, UPDATE, DELETE ON app.leasehold_locks TO worker;
//! GRANT SELECT, INSERT, UPDATE, DELETE ON app.leasehold_queue TO worker;
//! GRANT SELECT, UPDATE (watermark) ON app.leasehold_settings TO worker;
//! ```
//!
//! and for [`MysqlFence`] SELECT, INSERT and UPDATE on `leasehold_fence`. `init` needs CREATE, UPDATE
//! of the settings, and to upgrade older tables ALTER.
//!
//! # TLS
//!
//! A server that is not verified can use up this process's memory: the driver puts packets of 16 MiB together
//! without end, and has no limit of its own to set. The time limit ends it.
//!
//! `ssl-mode` in the URL says which: `disabled`; `preferred`, the default, which is TLS only where the server has
//! it; `required`; `verify_ca`, and `verify_identity`. Before `verify_ca` no certificate is checked, and only
//! `verify_identity` checks that it is this host's: somebody between client and server reads and changes everything
//! with the others. Trusted are the authorities that Mozilla trusts and those in the PEM file `ssl-ca`; `ssl-cert` and
//! `ssl-key` are the client's own. The provider of cryptography is as for PostgreSQL: `verify_ca` needs one that the
//! application has installed. A mode that is not known, and a file that would not be used, is refused.
//!
//! A password is not sent where it could be read on the way, or be asked for by a server that is not ours: where TLS is
//! not demanded (`required` at least) and the host is not this machine, the URL needs `plaintext=on`.
//!
//! # MySQL
//!
//! Tested on MariaDB. It needs JSON_TABLE: MySQL 8.0.4 or MariaDB 10.6. By its manual MySQL 8 differs in
//! that its users by default have `caching_sha2_password`, which this driver supports over TLS and
//! Unix sockets; in that `sync_binlog` is 1 by default, and the binary log on; and in that row locks are
//! not given in the order in which they were asked for, which nothing here relies on.

mod backend;
pub(crate) mod config;
pub(crate) mod connection;
mod fence;
pub(crate) mod guarantees;
pub(crate) mod rows;
pub(crate) mod statements;
mod store;

pub use self::{
    config::{MysqlBuilder, connect, schema},
    fence::MysqlFence,
};
