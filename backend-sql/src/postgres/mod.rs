//! PostgreSQL: locks in unlogged tables of a server that you have.
//!
//! ```no_run
//! # async fn example(pool: sqlx::PgPool) -> Result<(), lock_core::Error> {
//! use lock_core::{Init, LockClient};
//!
//! let backend = backend_sql::postgres::PostgresBuilder::with_pool(pool).build().await?;
//! backend.init(&Init::default()).await?; // Once: makes the tables.
//! let client = LockClient::new(backend);
//! # Ok(()) }
//! ```
//!
//! Leases run on the server's clock. A crash of the server, a promotion or a restore empties the
//! tables. Then the store grants nothing for one longest lease. So these tables must stay unlogged,
//! and the settings and a fence's table logged: after `ALTER TABLE … SET LOGGED` nothing is
//! granted, and the error names the remedy. Each attempt, release and batch of renewals is one
//! statement in its own transaction, and works in any session: so poolers in transaction mode are
//! fine. A client prepares statements only after it has found out that no other client uses its
//! sessions. `prepare=on` and `prepare=off` in the URL decide this without a check. Only sessions
//! that it has found to be its own get settings of ours (`lock_timeout`, `enable_seqscan`, `jit`).
//!
//! Waiters wait in a queue. The statement that releases a lock also gives it to the first waiter,
//! and wakes that waiter's client by NOTIFY. Each client that waits listens on one connection
//! besides the pool's. If NOTIFY does not arrive, as behind a pooler in transaction mode, waiters
//! poll every 10 ms. `Guarantees::push` says whether NOTIFY arrives.
//!
//! A role needs SELECT, INSERT, UPDATE and DELETE on `leasehold_locks`, `leasehold_queue`,
//! `leasehold_records` and `leasehold_marker`, and SELECT on `leasehold_settings`; for
//! [`PostgresFence`] SELECT, INSERT and UPDATE on `leasehold_fence`. Only the tables' owner can run
//! `init` or change a setting.
//!
//! Other roles may create objects in the schemas of the search path. That does no harm: our
//! statements name the schema of the tables (`schema` in the URL, default `public`), and run no
//! function or operator of another role. A client refuses a search path that names a schema before
//! `pg_catalog`. It must trust the owners of the tables and of their schema, since they can run
//! code in the name of each role that uses the tables. A role with the privilege TRIGGER on the
//! tables can do so, too. `GRANT ALL` includes TRIGGER: so grant only what is named above. Before a
//! client or a [`PostgresFence`] first names a table, it refuses a table of another role (see
//! [`PostgresBuilder::schema`]).
//!
//! # TLS
//!
//! A server that is not verified can use up this process's memory: the driver reads messages of up
//! to 4 GiB, also before the login, and has no limit to set. The time limit of the call ends it.
//! But while notices arrive faster than the driver reads them, the driver keeps its thread of the
//! runtime, and no time limit ends it.
//!
//! `sslmode` in the URL chooses the mode: `disable`; `prefer` (default: TLS only if the server has
//! it); `require`; `verify-ca`; `verify-full`. The first three check no certificate. Only
//! `verify-full` checks that the certificate belongs to the host: with every other mode somebody
//! between client and server can read and change everything. The client trusts the authorities that
//! Mozilla trusts, and those in the PEM file `sslrootcert`. `sslcert` and `sslkey` are the client's
//! own certificate and key.
//!
//! The provider of cryptography comes from the feature `tls-ring` (default) or `tls-aws-lc`: the
//! driver takes no other. Only for `verify-ca` it takes the provider that the application has
//! installed (`CryptoProvider::install_default`); without one that mode is refused. An unknown
//! mode, and a file that would not be used, are refused. For an option that the URL leaves out, the
//! client reads the environment, as PostgreSQL's own clients do (`PGSSLMODE`, `PGSSLROOTCERT`,
//! `PGSSLCERT`, `PGSSLKEY`).
//!
//! A client does not send a password that others could read on the way, or that another server
//! could ask for: if TLS is not demanded (`require` at least) and the host is not this machine, the
//! URL needs `plaintext=on`.
//!
//! # Without a quarantine
//!
//! `init` with `quarantine` false turns the quarantine off for the whole store. Then a crash of the
//! server makes a second holder possible for up to a lease, and `Guarantees` withholds exclusion.

mod backend;
pub(crate) mod config;
pub(crate) mod connection;
mod fence;
mod guarantees;
pub(crate) mod statements;
mod store;
mod waiting;

pub use self::{
    config::{PostgresBuilder, connect, schema},
    fence::PostgresFence,
};
