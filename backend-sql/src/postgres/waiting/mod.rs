//! The queue entries of this client, and the connection on which the server notifies it of their
//! turns.

pub(super) mod entries;
pub(super) mod listen;
