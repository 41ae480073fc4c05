//! A store whose records have another version.

use std::sync::Arc;

use async_trait::async_trait;
use backend_sql::{Strategy, mysql::connect};
use lock_core::{Backend, Error, Init};
use servers::{Mariadb, Server as _};
use verification::versions::Versioned;

use crate::support::{
    mariadb::{start, url},
    versions::refused,
};

struct Versions {
    server: Mariadb,
    strategy: Strategy,
}

impl Versions {
    async fn start(strategy: Strategy) -> Self {
        let store = Self { server: start().await, strategy };
        store.connect().await.unwrap().init(&Init::new()).await.unwrap();
        store
    }

    async fn sql(&self, text: &str) -> String {
        self.server.sql(text).await.unwrap()
    }
}

#[async_trait]
impl Versioned for Versions {
    async fn connect(&self) -> Result<Arc<dyn Backend>, Error> {
        let url = url(self.server.address());
        connect(&format!("{url}&strategy={}", self.strategy)).await
    }

    async fn plant(&self, version: u64) {
        // The version goes first: a client that asks between the two statements is then also
        // refused by the version.
        let number = format!("UPDATE leasehold_settings SET version = {version}");
        let (from, to) =
            if version == 1 { ("expires_2", "expires") } else { ("expires", "expires_2") };
        let rename = format!("ALTER TABLE leasehold_locks RENAME COLUMN {from} TO {to}");
        let steps = if version == 1 { [rename, number] } else { [number, rename] };
        for step in steps {
            self.sql(&step).await;
        }
    }

    async fn contents(&self) -> String {
        let locks = self.sql("SELECT * FROM leasehold_locks ORDER BY name").await;
        locks + &self.sql("SELECT * FROM leasehold_settings").await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_refused_in_every_step() {
    refused(Versions::start).await;
}
