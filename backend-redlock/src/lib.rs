//! Redlock, hardened: the decisions of the protocol, as code without I/O.
//!
//! This crate has **no backend yet**: it cannot take a lock. What is here is what the backend will
//! decide with, so that the model in `tests/model.rs` can drive the very same functions through
//! every order of messages.

pub mod clock;
pub mod token;
pub mod validity;
pub mod vote;
