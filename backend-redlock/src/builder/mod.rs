//! How a store is described, by a builder or a URL, and opened.

mod config;
mod connect;
pub(crate) mod url;

pub use self::{config::RedlockBuilder, url::connect};
