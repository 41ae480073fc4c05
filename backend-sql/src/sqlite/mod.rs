//! SQLite: many processes of one machine on one file, without a server.
//!
//! ```no_run
//! # async fn example() -> Result<(), lock_core::Error> {
//! use lock_core::LockClient;
//!
//! let backend = backend_sql::sqlite::SqliteBuilder::new("locks.db").build().await?;
//! let client = LockClient::new(backend);
//! # Ok(()) }
//! ```
//!
//! The file is in WAL mode with `synchronous=NORMAL`. A loss of power may lose the last grants, but
//! with them it ends their holders, and rows of an earlier boot count as held for a full lease.
//! Leases run on CLOCK_BOOTTIME, which nobody sets: the wall clock is used for tokens only. A process in a
//! time namespace of its own, as a container may have, has another clock, and so has an earlier boot. What was
//! locked by such a clock is held, for all who share one, for one lease from when the first of them asks for it,
//! or from when its holder wrote last if that was later. The
//! file must be on a local file system; SQLite's locks do not work over a network.
//!
//! The file is made with mode 0600, for one user, or with `access=group` 0660, for the users of a group; and one that
//! users besides its owner and its group may read is refused. A user who may read it can stop its locks: a lock of SQLite's for reading is enough.

mod backend;
pub(crate) mod config;
mod connection;
mod epoch;
mod fence;
mod guarantees;
mod rows;
mod statements;
mod store;
mod waiting;

pub use self::{
    config::{SqliteBuilder, connect, schema},
    fence::SqliteFence,
};
