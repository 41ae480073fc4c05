//! Checks the data of a run against the contract.

pub(crate) mod judge;
pub(crate) mod timeline;
