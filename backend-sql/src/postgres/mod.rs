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
//! renewals is one statement in a transaction of its own.
//!
//! Waiters poll: LISTEN/NOTIFY is not used yet. Nor are transaction-mode poolers supported that do
//! not track prepared statements.

mod backend;
mod config;
mod error;
mod fence;
mod promises;
mod statements;

pub use self::{
    config::{PostgresBuilder, connect, schema},
    fence::PostgresFence,
};
