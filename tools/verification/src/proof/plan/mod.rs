//! The plan of a run: faults, stores, sizes, and random numbers from a seed.

pub(crate) mod fault;
pub(crate) mod profile;
pub(crate) mod rng;
pub(crate) mod system_under_test;
