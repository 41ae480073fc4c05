//! Connections to one server: from the socket up to the pool that keeps them.

pub(crate) mod bounded;
mod commands;
mod connection;
pub(crate) mod error;
pub(crate) mod handshake;
pub(crate) mod identity;
pub(crate) mod last_failure;
mod listener;
mod pipeline;
pub(crate) mod pool;
mod replicas;
mod sent_scripts;
pub(crate) mod socket;
pub(crate) mod subscription;
mod tls;
mod witness;

pub(crate) use self::{connection::Connection, listener::PushListener, sent_scripts::is_noscript};
