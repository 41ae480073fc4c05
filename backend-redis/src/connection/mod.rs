//! Connections to one server: from the socket up to the pool that keeps them.

pub(crate) mod bounded;
mod connection;
pub(crate) mod error;
pub(crate) mod failure;
mod handshake;
pub(crate) mod identity;
mod listener;
mod pipeline;
pub(crate) mod pool;
mod replicas;
pub(crate) mod socket;
pub(crate) mod subscription;
mod texts;
mod tls;

pub(crate) use self::{connection::Connection, listener::PushListener, texts::is_noscript};
