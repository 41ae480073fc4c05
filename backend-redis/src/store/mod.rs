//! A store's connections, and its scripts on the server that serves their bucket.

mod background;
mod first_use;
mod run;
mod store;
pub(crate) mod unreadable;

pub(crate) use self::store::Store;
