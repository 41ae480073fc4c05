//! The parts of the rolling migration.

pub(crate) mod child;
pub(crate) mod fleet;
mod judge;
mod resource;
