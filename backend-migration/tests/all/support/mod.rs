//! Stores in memory with planted faults, a migration over two of them, and a clock that a test
//! pauses.

pub(crate) mod clock;
pub(crate) mod faulty;
pub(crate) mod two;
