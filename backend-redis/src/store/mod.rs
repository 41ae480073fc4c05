//! A store's connections, and its scripts on the server that serves their bucket.

mod background;
mod refusals;
mod run;
mod store;

pub(crate) use self::store::Store;
