//! A place in a queue on the server.

use async_trait::async_trait;
use lock_core::{Backend as _, Error, Request, Signal, Turn};
use tokio::sync::mpsc;

use crate::backend::Redis;

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) redis: Redis,
    pub(crate) request: Request,
    pub(crate) number: u64,
    pub(crate) signals: mpsc::UnboundedReceiver<Signal>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.redis.pushes().remove(self.request.owner, self.number);
    }
}

#[async_trait]
impl Turn for Place {
    async fn next(&mut self) -> Signal {
        self.signals.recv().await.unwrap_or_else(|| Signal::Lost("the place is gone".into()))
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.redis.abandon(&self.request).await
    }
}
