//! The file: opened or made, who may read it, statements on it, and their errors.

mod error;
mod mode;
pub(super) mod open;
