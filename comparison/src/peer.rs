//! Other libraries' locks on a store of the same run.

use std::sync::Arc;

use async_trait::async_trait;

/// Another library's lock, measured in the rounds of the stores and on one of them.
#[async_trait]
pub trait Peer: Send + Sync {
    /// What the report calls it.
    fn name(&self) -> String;

    /// The name of the store on whose server it is.
    fn store(&self) -> String;

    /// Takes the lock `name`, calls `held` while it holds it, and gives it back; `false` if it gave up.
    ///
    /// # Errors
    /// Its own: it then has no figures.
    async fn hold(
        &self,
        task: usize,
        name: &str,
        held: &(dyn Fn() + Sync),
    ) -> Result<bool, Box<dyn std::error::Error + Send + Sync>>;
}

/// Peers of a run.
pub(crate) type Peers = Vec<Arc<dyn Peer>>;
