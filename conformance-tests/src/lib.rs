//! The conformance suite of leasehold.

pub mod kit;
