//! The file: where it may be, who may read it, opened or made, whether it is still at its path,
//! statements on it, and their errors.

mod database;
pub(super) mod emptied;
mod error;
mod mode;
pub(super) mod open;
pub(super) mod opened;
mod place;
