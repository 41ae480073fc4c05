//! Locks for programs without async code. With the feature `blocking`.
//!
//! Each client has a runtime of its own, with one thread, which renews its locks. Every call waits
//! on the caller's thread.
//!
//! ```
//! # #[cfg(feature = "memory")]
//! # fn main() -> Result<(), leasehold::Error> {
//! let client = leasehold::blocking::connect("memory:")?;
//! let report = client.lock("nightly").with(|lock| format!("written under {}", lock.token()))?;
//! assert!(report.starts_with("written"));
//!
//! let guard = client.lock("nightly").acquire()?;
//! assert!(guard.is_valid());
//! drop(guard); // releases
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "memory"))]
//! # fn main() {}
//! ```
//!
//! The calls refuse to run in an async task, which they would block: use the functions of the crate
//! itself there.

mod client;
mod once;

pub use self::{
    client::{Client, Guard, Lock, connect, connect_with},
    once::{Decision, DueRun, Once},
};
