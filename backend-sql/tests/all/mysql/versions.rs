//! A store whose records have another version.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use backend_sql::{Strategy, mysql::connect};
use conformance_tests::{
    kit::{Mariadb, Server as _},
    versions::{Versioned, refused, upgraded},
};
use lock_core::{Backend, Error, Init, LockClient};
use sqlx::{Connection as _, MySqlConnection};

use crate::support::mariadb::{BOTH, start, url};

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
        let renamed = "SELECT COUNT(*) FROM information_schema.columns \
            WHERE table_schema = DATABASE() AND table_name = 'leasehold_locks' AND column_name = 'expires_2'";
        if self.sql(renamed).await != "0" {
            self.sql("ALTER TABLE leasehold_locks RENAME COLUMN expires_2 TO expires").await;
        }
        match version {
            None => self.sql("ALTER TABLE leasehold_settings DROP COLUMN version").await,
            Some(version) => {
                if version == 2 {
                    // As a step to that version does.
                    self.sql("ALTER TABLE leasehold_locks RENAME COLUMN expires TO expires_2")
                        .await;
                }
                self.sql(&format!("UPDATE leasehold_settings SET version = {version}")).await
            }
        };
    }

    async fn contents(&self) -> String {
        let locks = self.sql("SELECT * FROM leasehold_locks ORDER BY name").await;
        locks + &self.sql("SELECT * FROM leasehold_settings").await
    }
}

async fn each(test: impl AsyncFn(Versions)) {
    for strategy in BOTH {
        test(Versions::start(strategy).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_refused_in_every_step() {
    each(async |store| refused(&store).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_records_are_upgraded_by_init_under_load() {
    each(async |store| upgraded(Arc::new(store)).await).await;
}

/// Renewals read the settings, and wait behind an upgrade that waits for another's transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_others_are_in_the_way_of_loses_nobody_a_lock() {
    let store = Versions::start(Strategy::PrimaryKey).await;
    let client = LockClient::new(store.connect().await.unwrap());
    let lease = Duration::from_secs(4);
    let guard = client.lock("job").lease(lease).acquire().await.unwrap();
    store.plant(None).await;
    let url = url(store.server.address());
    let mut foreign = MySqlConnection::connect(&url).await.unwrap();
    let read = "BEGIN; SELECT longest_lease FROM leasehold_settings";
    sqlx::raw_sql(read).execute(&mut foreign).await.unwrap();
    let operator = store.connect().await.unwrap();
    operator.init(&Init::new()).await.unwrap_err();
    assert!(guard.is_valid());
    sqlx::raw_sql("ROLLBACK").execute(&mut foreign).await.unwrap();
    operator.init(&Init::new()).await.unwrap();
    guard.release().await.unwrap();
}
