//! A store whose records have another version.

use std::sync::Arc;

use async_trait::async_trait;
use backend_sql::{
    Strategy,
    postgres::{connect, schema},
};
use conformance_tests::{
    kit::Postgres,
    versions::{Versioned, refused, upgraded},
};
use lock_core::{Backend, Error, ErrorKind, Init, LockClient};
use sqlx::{Connection as _, PgConnection};

use crate::support::postgres::{BOTH, SECOND, made, start, url};

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

    async fn plant(&self, version: Option<u64>) {
        let renamed = "SELECT count(*) FROM information_schema.columns \
            WHERE table_name = 'leasehold_locks' AND column_name = 'expires_2'";
        if self.sql(renamed).await != "0" {
            self.sql("ALTER TABLE leasehold_locks RENAME COLUMN expires_2 TO expires").await;
        }
        match version {
            None => self.sql("ALTER TABLE leasehold_settings DROP COLUMN version").await,
            Some(version) => {
                // As a step to that version does: at once, for a client looks at any time.
                let renamed = match version {
                    2 => "ALTER TABLE leasehold_locks RENAME COLUMN expires TO expires_2;",
                    _ => "",
                };
                let number = format!("UPDATE leasehold_settings SET version = {version}");
                self.sql(&format!("BEGIN; {renamed} {number}; COMMIT")).await
            }
        };
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
    let url = url(&store.server);
    let client = LockClient::new(store.connect().await.unwrap());
    let guard = client.lock("job").lease(2 * SECOND).acquire().await.unwrap();
    store.plant(None).await;
    let mut foreign = PgConnection::connect(&url).await.unwrap();
    let read = "BEGIN; SELECT longest_lease FROM leasehold_settings";
    sqlx::raw_sql(read).execute(&mut foreign).await.unwrap();
    let operator = store.connect().await.unwrap();
    let error = operator.init(&Init::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(guard.is_valid());
    sqlx::raw_sql("ROLLBACK").execute(&mut foreign).await.unwrap();
    operator.init(&Init::new()).await.unwrap();

    // Nothing is to be upgraded any more, and nothing is locked.
    sqlx::raw_sql(read).execute(&mut foreign).await.unwrap();
    store.sql(&schema(&url).unwrap()).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}
