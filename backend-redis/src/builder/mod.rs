//! How a user describes a store: the builder and the URL.

mod config;
pub(crate) mod url;
mod url_query;

pub use self::{config::RedisBuilder, url::connect};
