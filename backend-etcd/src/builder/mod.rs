//! Configuration: the builder, and the URL.

mod config;
mod url;

#[cfg(test)]
pub(crate) use self::url::parse;
pub use self::{config::EtcdBuilder, url::connect};
