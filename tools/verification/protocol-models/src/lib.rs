//! The crate of `tests/all`, which searches four protocols completely: that of Redlock, that of
//! stores which only compare and swap, and those by which a plain Redis and ZooKeeper open without
//! a wait. It is a separate crate, so that only the searches are compiled with optimisation.
