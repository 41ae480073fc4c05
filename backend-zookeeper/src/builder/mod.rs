//! Configuration: the builder, and the URL.

mod config;
mod url;

pub use self::{config::ZooKeeperBuilder, url::connect};
