//! Waiting for a name in a database that pushes nothing: look now and then, and ask when it is free.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Error, Request, Signal, SystemEnv, Turn, jittered};

use crate::dialect::Dialect;

/// How often a waiting process looks. A look takes no write lock.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Looking<D> {
    pub(crate) dialect: Arc<D>,
    pub(crate) request: Request,
}

#[async_trait]
impl<D: Dialect> Turn for Looking<D> {
    async fn next(&mut self) -> Signal {
        loop {
            tokio::time::sleep(jittered(&SystemEnv, LOOK)).await;
            match self.dialect.is_free(&self.request.name).await {
                Ok(true) => return Signal::Recheck,
                Ok(false) => {}
                // The core's own poll is behind this, and reports what it meets.
                Err(error) => {
                    tracing::debug!(name = %self.request.name, %error, "look failed");
                    tokio::time::sleep(LOOK * 20).await;
                }
            }
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        // There is no place to give up, but the answer to an attempt may have been lost.
        self.dialect.abandon(&self.request).await
    }
}
