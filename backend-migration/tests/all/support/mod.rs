//! Stores in memory with planted faults, and a migration over two of them.

pub(crate) mod faulty;
pub(crate) mod two;
