//! A store under a test's control, for tests of code that uses locks.

mod backend;
mod clock;
mod store;

pub use self::{backend::Operation, store::TestStore};
