//! Configuration: the builder, and the URL.

mod config;
mod url;

pub use self::{config::ZooKeeperBuilder, url::connect};

#[cfg(test)]
pub(crate) async fn store(
    url: &str,
) -> Result<std::sync::Arc<crate::store::Store>, lock_core::Error> {
    url::parse(url)?.open().await
}
