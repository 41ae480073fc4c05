//! ShedLock's table in PostgreSQL and MySQL.

mod dialect;
mod guarantees;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod server;
mod statements;
mod store;
mod url;

#[cfg(feature = "mysql")]
pub(crate) use self::url::{mysql, mysql_schema};
#[cfg(feature = "postgres")]
pub(crate) use self::url::{postgres, postgres_schema};
