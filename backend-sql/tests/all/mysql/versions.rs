//! A store whose records have another version.

use std::sync::Arc;

use async_trait::async_trait;
use backend_sql::{Strategy, mysql::connect};
use lock_core::{Backend, Error, Init, LockClient};
use servers::{Mariadb, Server as _};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};
use verification::versions::Versioned;

use crate::support::mariadb::{LEASE, start, url};
use crate::support::versions::refused_or_upgraded;

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

    async fn plant(&self, version: Option<u64>) {
        // Works from any version that the tables have, in the order in which `init` changes them.
        let there = async |column: &str| {
            let columns = format!(
                "SELECT COUNT(*) FROM information_schema.columns \
                 WHERE table_schema = DATABASE() AND table_name = 'leasehold_locks' AND column_name = '{column}'"
            );
            self.sql(&columns).await != "0"
        };
        for (from, to) in [("expires_3", 2), ("expires_2", 1)] {
            let wanted = version.unwrap_or(1);
            if wanted <= to && there(from).await {
                let name = if to == 1 { "expires".to_owned() } else { format!("expires_{to}") };
                let rename = format!("ALTER TABLE leasehold_locks RENAME COLUMN {from} TO {name}");
                self.sql(&rename).await;
            }
        }
        match version {
            Some(3) => {
                // The version goes first: a client that asks between the two statements is then
                // also refused by the version.
                self.sql("UPDATE leasehold_settings SET version = 3").await;
                self.sql("ALTER TABLE leasehold_locks RENAME COLUMN expires_2 TO expires_3").await;
            }
            Some(2) => {}
            _ => {
                self.sql("DROP TABLE leasehold_queue").await;
                self.sql("ALTER TABLE leasehold_locks DROP COLUMN readers").await;
            }
        }
        match version {
            None => self.sql("ALTER TABLE leasehold_settings DROP COLUMN version").await,
            Some(version) => {
                self.sql(&format!("UPDATE leasehold_settings SET version = {version}")).await
            }
        };
    }

    async fn contents(&self) -> String {
        let locks = self.sql("SELECT * FROM leasehold_locks ORDER BY name").await;
        locks + &self.sql("SELECT * FROM leasehold_settings").await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_refused_and_an_older_one_is_upgraded() {
    refused_or_upgraded(Versions::start).await;
}

/// What uses a table waits behind an upgrade that waits for another's transaction: so that gives up
/// in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_others_are_in_the_way_of_loses_nobody_a_lock() {
    let store = Versions::start(Strategy::PrimaryKey).await;
    let url = url(store.server.address());
    for table in ["settings", "locks"] {
        let client = LockClient::new(store.connect().await.unwrap());
        let guard = client.lock("job").lease(LEASE).acquire().await.unwrap();
        store.plant(None).await;
        let mut foreign = MySqlConnection::connect(&url).await.unwrap();
        let read = format!("BEGIN; SELECT * FROM leasehold_{table}");
        sqlx::raw_sql(AssertSqlSafe(read)).execute(&mut foreign).await.unwrap();
        let operator = store.connect().await.unwrap();
        operator.init(&Init::new()).await.unwrap_err();
        sqlx::raw_sql("ROLLBACK").execute(&mut foreign).await.unwrap();
        operator.init(&Init::new()).await.unwrap();
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
}
