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
//! tables, and nothing is then granted for one longest lease. Each attempt, release and batch of
//! renewals is one statement in a transaction of its own, and no session keeps anything that another
//! could not do without: poolers in transaction mode are fine. Statements are prepared only where a client has seen
//! that its sessions are its own; `prepare=on` and `prepare=off` in the URL say that there is no need to see.
//!
//! Waiters stand in a queue. A release gives the lock to the first of them in the same statement, which tells it by NOTIFY, on one
//! connection besides the pool's, for each client that waits. Where NOTIFY does not arrive, as behind a pooler in
//! transaction mode, they look every 10 ms; `Guarantees::push` says which it is.
//!
//! A role needs SELECT, INSERT, UPDATE and DELETE on `leasehold_locks`, `leasehold_places` and `leasehold_marker`, and SELECT on
//! `leasehold_settings`; for [`PostgresFence`] SELECT, INSERT and UPDATE on `leasehold_fence`. `init` needs the
//! tables' owner, and so does changing a setting.
//!
//! Other roles may create what they like in the schemas of the search path: our statements name the schema of the tables
//! (`schema` in the URL, `public` if it is left out) and run no function or operator of another role. A search path that
//! names a schema before `pg_catalog` is refused. The owners of the tables and of their schema are trusted, since they
//! can run code in the name of each role that uses the tables. So can a role with the privilege TRIGGER on them, which
//! `GRANT ALL` has in it: grant what is named above. Before a client or a [`PostgresFence`] first names a table, it refuses those that
//! belong to another role (see [`PostgresBuilder::schema`]).
//!
//! # TLS
//!
//! A server that is not verified can use up this process's memory: the driver reads messages of up to 4 GiB, also
//! before the login, and has no limit of its own to set. The time limit ends it. While notices arrive faster than
//! the driver reads them, it keeps its thread of the runtime, so that no time limit ends it.
//!
//! `sslmode` in the URL says which: `disable`; `prefer`, the default, which is TLS only where the server has it;
//! `require`; `verify-ca`, and `verify-full`. Before `verify-ca` no certificate is checked, and only `verify-full`
//! checks that it is this host's: somebody between client and server reads and changes everything with the others.
//! Trusted are the authorities that Mozilla trusts and those in the PEM file `sslrootcert`; `sslcert` and `sslkey` are
//! the client's own. The provider of cryptography is that of the feature `tls-ring` (default) or `tls-aws-lc`, for
//! the driver takes no other; only for `verify-ca` it takes the one that the application has installed
//! (`CryptoProvider::install_default`), and without one that mode is refused. A mode that is not known, and a file that would not be used, is refused. Where the URL is silent
//! the environment is asked, as PostgreSQL's own clients do (`PGSSLMODE`, `PGSSLROOTCERT`, `PGSSLCERT`, `PGSSLKEY`).
//!
//! A password is not sent where it could be read on the way, or be asked for by a server that is not ours: where TLS is
//! not demanded (`require` at least) and the host is not this machine, the URL needs `plaintext=on`.
//!
//! # Without a quarantine
//!
//! The quarantine can be turned off for the whole store (`init` with `quarantine` false): then a crash of
//! the server makes a second holder possible for up to a lease, and `Guarantees` withholds exclusion.

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
