//! Searches of small protocols, each to its end.

mod cas;
mod redlock;
mod witness;
mod zookeeper;
