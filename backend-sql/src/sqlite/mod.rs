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
//! it also ends their holders. The write of a record waits for the disk. Leases run on
//! CLOCK_BOOTTIME, which nobody sets; only tokens use the wall clock. An earlier boot had another
//! clock, and a process in its own time namespace has another clock, as in some containers. A
//! client that finds a lock of another clock cannot know when its lease ends. So it treats the lock
//! as held for one full lease. This lease begins when the first client with its own clock asks, or
//! later, when the holder last wrote. The file must be on a local file system: SQLite's locks do
//! not work over a network. A file that is mounted by itself or has hard links is refused, since
//! its clients may not find the same `-wal` and `-shm` beside it. Do not delete, move or replace
//! it, or one of these, while it is in use: a holder learns of that only by its next renewal.
//!
//! A new file has mode 0600, for one user; with `access=group` 0660, for the users of a group. A
//! file that other users may read is refused: a user who may read it can block all its locks by a
//! lock of SQLite for reading.

mod backend;
pub(crate) mod config;
mod connection;
mod epoch;
mod fence;
mod guarantees;
mod rows;
mod statements;
mod store;
mod sys;
mod waiting;

pub use self::{
    config::{SqliteBuilder, connect, schema},
    fence::SqliteFence,
};
