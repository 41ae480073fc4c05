//! How a store is described: by a builder or a URL.

mod config;
pub(crate) mod url;
mod url_options;

pub use self::{config::RedisBuilder, url::connect};
