//! What PostgreSQL and MySQL share: how a server is connected to, and its connections.

pub(crate) mod connect_options;
pub(crate) mod connection;
pub(crate) mod tls;
