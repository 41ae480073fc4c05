//! What a run has shown, held against the contract.

pub(crate) mod judge;
pub(crate) mod timeline;
