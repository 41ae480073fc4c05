//! The crate of `tests/all`, which searches three protocols completely: that of Redlock, that of
//! stores which only compare and swap, and the one by which a plain Redis opens without a wait. It
//! is a separate crate, so that only the searches are compiled with optimisation.
