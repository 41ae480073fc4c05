//! All tests on real servers and files but the suite's, which has a harness of its own.
#![allow(clippy::unwrap_used)]

mod broken;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod fake_server;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod support;
mod tokens;
