//! Breaks each guard of the statements once: see the markers in the SQL files.

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod common;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
