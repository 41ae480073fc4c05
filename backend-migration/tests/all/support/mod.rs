//! Stores in memory that a test may spoil, and a migration over two of them.

pub(crate) mod faulty;
pub(crate) mod two;
