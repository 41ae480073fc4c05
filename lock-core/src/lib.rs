//! The contract of leasehold.
