//! All tests on real servers and files, except the suite, which has its own harness.
#![allow(clippy::unwrap_used)]

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod fake_server;
mod missing_guards;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod support;
mod tokens;
