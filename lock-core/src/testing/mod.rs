//! A store that a test controls, for users' tests of code that uses locks.

mod backend;
mod clock;
mod store;

/// For the tests of this project's crates.
#[doc(hidden)]
pub use self::clock::TokioClock;
pub use self::{backend::Operation, store::TestStore};
