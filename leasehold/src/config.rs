//! A client from a configuration file.

use lock_core::{ClientOptions, Error, LockClient};
use serde::Deserialize;

use crate::{StoreUrl, connect_with};

/// A store and the options of its client, for a configuration file in any format of serde.
///
/// ```toml
/// url = "memory:"
///
/// [options]              # optional, as is each of its lines
/// label = "billing@eu-1"
/// lease = "10s"
/// call_timeout = "5s"
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The URL of the store.
    pub url: StoreUrl,
    /// The options of the client. Default: [`ClientOptions::default`].
    #[serde(default)]
    pub options: ClientOptions,
}

impl Config {
    /// The store at `url` with the default options.
    #[must_use]
    pub fn new(url: StoreUrl) -> Self {
        Self { url, options: ClientOptions::default() }
    }

    /// Connects. See [`connect`](crate::connect()).
    ///
    /// # Errors
    /// As [`connect_with`].
    pub async fn connect(self) -> Result<LockClient, Error> {
        connect_with(self.url, self.options).await
    }
}
