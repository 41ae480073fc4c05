//! The conformance suite of leasehold.

pub mod history;
pub mod kit;
pub mod sim;
