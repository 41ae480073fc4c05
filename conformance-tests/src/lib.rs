//! The conformance suite of leasehold.
