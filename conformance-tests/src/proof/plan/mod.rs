//! What is to be done: faults, stores, sizes, and numbers drawn from a seed.

pub(crate) mod fault;
pub(crate) mod profile;
pub(crate) mod rng;
pub(crate) mod system_under_test;
