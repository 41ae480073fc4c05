//! The parts of the rolling migration.

pub(crate) mod child;
pub(crate) mod fleet;
mod judge;
pub(crate) mod report;
mod resource;
