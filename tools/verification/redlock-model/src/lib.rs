//! The crate of `tests/model`, which searches Redlock's protocol completely. It is a separate
//! crate, so that only the searches are compiled with optimisation.
