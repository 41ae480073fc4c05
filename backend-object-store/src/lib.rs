//! Locks of leasehold in a bucket, or in anything else that compares and swaps. No server of locks
//! is needed, and no clock is trusted for exclusion.
//!
//! [`cas`] has the protocol, over a trait of three calls, [`CasStore`](cas::CasStore). [`Objects`]
//! is this trait for every store of the crate `object_store` with conditional writes. `connect`, of
//! the feature `clouds`, opens S3, Google Cloud Storage and Azure by a URL.

#![warn(missing_debug_implementations)]

pub mod cas;
#[cfg(feature = "clouds")]
mod clouds;
mod objects;
mod tunables;

#[cfg(feature = "clouds")]
pub use self::clouds::{connect, connect_with};
pub use self::objects::Objects;
