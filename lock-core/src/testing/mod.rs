//! A store that a test controls, for users' tests of code that uses locks.

mod backend;
mod clock;
mod store;

pub use self::{backend::Operation, store::TestStore};
