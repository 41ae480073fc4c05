//! Faults: of the network, of clocks, of the disk, and data restored from an old copy.

pub mod clock_shim;
pub(crate) mod cold_copy;
pub(crate) mod disk;
pub mod proxy;
mod tracer;
