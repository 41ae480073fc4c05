//! Locks of leasehold in SQL databases.
//!
//! There are two strategies over the same tables ([`Strategy`]). In one the row *is* the lock, and
//! one upsert takes it. In the other the client reads the row, and updates it only if its version
//! is still the same. With both, the row keeps the fencing token of a released lock.
//!
//! | feature | database | module |
//! |---|---|---|
//! | `sqlite` | SQLite, compiled in | [`sqlite`] |
//! | `postgres` | PostgreSQL | [`postgres`] |
//! | `mysql` | MySQL, MariaDB | [`mysql`] |

#![warn(missing_debug_implementations)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// An optimized build resolves all futures of a call at once, and MySQL's driver nests them deeply.
#![recursion_limit = "256"]
// Without a database nothing uses the flow.
#![cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
    allow(dead_code, unused_imports, unused_macros)
)]

mod backend;
mod bounded_set;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod check;
mod dialect;
mod error;
#[cfg(test)]
mod fuzz;
mod gate;
mod page;
mod records;
mod renewal;
mod retry;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod servers;
mod settings;
pub mod shared;
mod sql_files;
mod strategy;
mod tables;
mod tunables;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
mod waiting;

#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

// Builders take pools and options of sqlx; fences take its connections.
pub use sqlx;

pub use self::strategy::Strategy;
