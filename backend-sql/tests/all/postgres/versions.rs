//! A store whose records have another version.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use backend_sql::{
    Strategy,
    postgres::{connect, schema},
};
use lock_core::{Backend, Error, ErrorKind, Init, LockClient};
use servers::Postgres;
use sqlx::{Connection as _, PgConnection};
use tokio::time::sleep;
use verification::versions::Versioned;

use crate::support::postgres::{SECOND, is_so, made, start, url};
use crate::support::versions::refused_or_upgraded;

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
        // All at once, as an upgrade to that version does, since a client may read at any time.
        let tables = match version {
            None | Some(1) => {
                "DROP TABLE leasehold_queue; ALTER TABLE leasehold_locks DROP COLUMN far, DROP COLUMN moved, DROP COLUMN readers; \
                 ALTER TABLE leasehold_locks RENAME COLUMN expires_2 TO expires; \
                 ALTER TABLE leasehold_locks RENAME COLUMN alive TO heard"
            }
            Some(2) => "ALTER TABLE leasehold_locks RENAME COLUMN expires_3 TO expires_2",
            Some(3) => "ALTER TABLE leasehold_locks RENAME COLUMN expires_2 TO expires_3",
            Some(other) => panic!("no records of version {other}"),
        };
        let number = match version {
            None => "ALTER TABLE leasehold_settings DROP COLUMN version".to_owned(),
            Some(version) => format!("UPDATE leasehold_settings SET version = {version}"),
        };
        self.sql(&format!("BEGIN; {tables}; {number}; COMMIT")).await;
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
async fn another_version_is_refused_and_an_older_one_is_upgraded() {
    refused_or_upgraded(Versions::start).await;
}

/// Renewals of older clients wait behind an upgrade that waits for a foreign transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_a_transaction_blocks_costs_nobody_a_lock() {
    let store = Versions::start(Strategy::PrimaryKey).await;
    let url = url(&store.server);
    let client = LockClient::new(store.connect().await.unwrap());
    let guard = client.lock("job").lease(2 * SECOND).acquire().await.unwrap();
    store.plant(Some(1)).await;
    let mut older = PgConnection::connect(&url).await.unwrap();
    let renewals = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&renewals);
    let renewing = tokio::spawn(async move {
        let renew = "UPDATE leasehold_locks SET expires = clock_timestamp() + interval '1 hour' \
            WHERE expires > clock_timestamp()";
        loop {
            match sqlx::raw_sql(renew).execute(&mut older).await {
                Ok(done) => assert_eq!(done.rows_affected(), 1),
                // The upgrade was made.
                Err(error) => break error.to_string(),
            }
            counted.fetch_add(1, Ordering::Relaxed);
            sleep(SECOND / 10).await;
        }
    });
    let mut foreign = PgConnection::connect(&url).await.unwrap();
    let read = "BEGIN; SELECT longest_lease FROM leasehold_settings";
    sqlx::raw_sql(read).execute(&mut foreign).await.unwrap();
    let operator = store.connect().await.unwrap();
    is_so("a renewal", async || renewals.load(Ordering::Relaxed) > 0).await;
    let before = renewals.load(Ordering::Relaxed);
    let error = operator.init(&Init::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // More than the one that may have been under way when it began.
    let meanwhile = renewals.load(Ordering::Relaxed) - before;
    assert!(meanwhile > 1, "{meanwhile} renewals while the upgrade waited");
    assert!(!renewing.is_finished());
    sqlx::raw_sql("ROLLBACK").execute(&mut foreign).await.unwrap();
    operator.init(&Init::new()).await.unwrap();
    let refused = renewing.await.unwrap();
    assert!(refused.contains("expires"), "{refused}");
    let held = "SELECT owner IS NOT NULL AND expires_2 > clock_timestamp() FROM leasehold_locks";
    assert_eq!(store.sql(held).await, "t");

    // Nothing is to be upgraded any more, and nothing is locked.
    sqlx::raw_sql(read).execute(&mut foreign).await.unwrap();
    store.sql(&schema(&url).unwrap()).await;
    drop(guard);
}
