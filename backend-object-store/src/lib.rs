//! Locks of leasehold in a bucket, or in anything else that compares and swaps. No server of locks
//! is needed, and no clock is trusted for exclusion.
//!
//! [`cas`] has the protocol, over a trait of three calls, [`CasStore`](cas::CasStore). [`Objects`]
//! is this trait for every store of the crate `object_store` with conditional writes.

#![warn(missing_debug_implementations)]

pub mod cas;
mod objects;
mod tunables;

pub use self::objects::Objects;
