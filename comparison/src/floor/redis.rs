//! `PING`, and `SET` of one key that ends by itself.

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;

use super::{Floor, Trouble};

const KEY: &str = "leasehold compare: floor";

struct Redis(MultiplexedConnection);

pub(super) async fn open(url: &str) -> Result<Box<dyn Floor>, Trouble> {
    let client = redis::Client::open(url)?;
    Ok(Box::new(Redis(client.get_multiplexed_async_connection().await?)))
}

#[async_trait]
impl Floor for Redis {
    async fn ping(&self) -> Result<(), Trouble> {
        Ok(redis::cmd("PING").exec_async(&mut self.0.clone()).await?)
    }

    async fn write(&self) -> Result<(), Trouble> {
        let mut set = redis::cmd("SET");
        set.arg(KEY).arg(1).arg("PX").arg(10_000);
        Ok(set.exec_async(&mut self.0.clone()).await?)
    }

    async fn close(&self) {
        // It ends by itself otherwise.
        let _ = redis::cmd("DEL").arg(KEY).exec_async(&mut self.0.clone()).await;
    }
}
