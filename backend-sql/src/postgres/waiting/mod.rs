//! The entries of this client in queues, and the connection on which the server tells of their turns.

pub(super) mod entries;
pub(super) mod listen;
