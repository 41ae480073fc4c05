//! The crate of `tests/model`, which searches Redlock's protocol to its end. It is a crate of its own, so that only
//! the searches are compiled with optimisation.
