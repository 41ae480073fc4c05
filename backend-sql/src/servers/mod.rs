//! What PostgreSQL and MySQL share: options of a connection, TLS, connections of a pool, and times.

pub(crate) mod connect_options;
pub(crate) mod connections;
mod ready;
pub(crate) mod sweeping;
pub(crate) mod times;
pub(crate) mod tls;
