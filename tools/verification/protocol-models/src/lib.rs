//! The crate of `tests/all`, which searches two protocols completely: that of Redlock, and the one
//! by which a plain Redis opens without a wait. It is a separate crate, so that only the searches
//! are compiled with optimisation.
