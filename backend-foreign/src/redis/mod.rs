//! The layouts in a single Redis.

mod backend;
mod guarantees;
mod layout;
mod scripts;
mod url;
mod waiting;

pub(crate) use self::url::connect;
