//! A store whose records have another version.

use std::sync::Arc;

use async_trait::async_trait;
use backend_sql::{Strategy, postgres::connect};
use lock_core::{Backend, Error};
use servers::Postgres;
use verification::versions::Versioned;

use crate::support::{
    postgres::{SECOND, made, start, url},
    versions::refused,
};

struct Versions {
    server: Postgres,
    strategy: Strategy,
}

impl Versions {
    async fn start(strategy: Strategy) -> Self {
        let server = start().await;
        made(&server, strategy, 30 * SECOND).await;
        Self { server, strategy }
    }

    async fn sql(&self, text: &str) -> String {
        self.server.sql(text).await.unwrap()
    }
}

#[async_trait]
impl Versioned for Versions {
    async fn connect(&self) -> Result<Arc<dyn Backend>, Error> {
        connect(&format!("{}?strategy={}", url(&self.server), self.strategy)).await
    }

    async fn plant(&self, version: u64) {
        // At once, as a step of `init` would: a client looks at any time.
        let (from, to) =
            if version == 1 { ("expires_2", "expires") } else { ("expires", "expires_2") };
        self.sql(&format!(
            "BEGIN; ALTER TABLE leasehold_locks RENAME COLUMN {from} TO {to}; \
             UPDATE leasehold_settings SET version = {version}; COMMIT"
        ))
        .await;
    }

    async fn contents(&self) -> String {
        let mut all = Vec::new();
        for table in ["locks", "marker", "settings"] {
            let rows = format!("SELECT t::text FROM leasehold_{table} AS t ORDER BY 1");
            all.push(self.sql(&rows).await);
        }
        all.join("\n")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_refused_in_every_step() {
    refused(Versions::start).await;
}
