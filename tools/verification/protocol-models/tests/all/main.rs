//! Searches of small protocols, each to its end.

mod redlock;
mod witness;
