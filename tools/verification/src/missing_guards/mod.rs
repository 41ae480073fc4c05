//! Removes one guard from the Lua scripts or SQL statements of a backend, on their way to a real
//! server. The case for that guard must then fail. The same case must pass with the unchanged text.
//!
//! This shows that the *backend's* tests notice a missing guard. Whether the *suite's* cases notice
//! a broken backend, `mutants` shows.
//!
//! A guard is one line of a text, after the comment line `-- guard: NAME`, which must reach the
//! server. The tests of a backend list its guards as [`MissingGuard`] and run the list with
//! [`try_all`]. SQLite has no server, so its tests use [`try_all_in_copies`].

pub mod cases;
mod copies;
mod list;
pub mod record_cases;
#[cfg(feature = "redis")]
pub mod redis;
mod wire;
#[cfg(feature = "redis")]
mod worlds;

#[cfg(feature = "redis")]
pub use self::worlds::Worlds;
pub use self::{
    copies::try_all_in_copies,
    list::{Clients, MissingGuard, Setup, Verdict, every_marker_is_tried},
    wire::try_all,
};
