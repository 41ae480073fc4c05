//! What goes wrong: the network, the clocks, the disk, and data that come back from an old copy.

pub mod clock_shim;
pub(crate) mod cold_copy;
pub mod proxy;
pub(crate) mod slow_flush;
mod tracer;
