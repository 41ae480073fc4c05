//! The nodes: what this client knows of each, how it asks many at once, and their pushes to its
//! waiters.

pub(crate) mod guarantees;
pub(crate) mod margin_and_waits;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod pushes;
pub(crate) mod retained;
pub(crate) mod round;
