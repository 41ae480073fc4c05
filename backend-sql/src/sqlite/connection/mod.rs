//! The file: opened or made, who may read it, statements on it, and their errors.

pub(super) mod database;
mod error;
mod mode;
pub(super) mod open;
