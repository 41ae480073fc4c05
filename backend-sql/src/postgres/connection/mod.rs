//! Sessions of a server: statements in them, their arguments and errors, and what this client knows
//! of the server and its tables.

pub(crate) mod arg;
pub(super) mod error;
pub(super) mod health;
pub(super) mod server;
pub(crate) mod sessions;
pub(crate) mod table_check;
