//! Connections to a server: statements on them, and their errors.

pub(super) mod error;
pub(crate) mod server;
