//! Stores whose records have another version.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Backend, Error};
use servers::Redis;
use verification::versions::{Versioned, refused};

use crate::support::{server, url};

const EPOCH: &str = "leasehold:{0}:epoch";

struct OneServer(Redis);

#[async_trait]
impl Versioned for OneServer {
    async fn connect(&self) -> Result<Arc<dyn Backend>, Error> {
        backend_redis::connect(&url(&self.0)).await
    }

    async fn plant(&self, version: u64) {
        self.0.cli(&["HSET", EPOCH, "version", &version.to_string()]).await.unwrap();
    }

    async fn contents(&self) -> String {
        let mut all = Vec::new();
        for key in self.0.cli(&["KEYS", "*"]).await.unwrap().lines() {
            all.push(format!("{key}: {}", self.0.cli(&["DUMP", key]).await.unwrap()));
        }
        all.sort();
        all.join("\n")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_refused_in_every_step() {
    refused(&OneServer(server().await)).await;
}
