//! What PostgreSQL and MySQL share: options of a connection, TLS, and connections of a pool.

pub(crate) mod connect_options;
pub(crate) mod connection;
pub(crate) mod shrink;
pub(crate) mod tls;
