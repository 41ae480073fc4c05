//! A store whose records have another version.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use backend_sql::{Strategy, sqlite::SqliteBuilder};
use lock_core::{Backend, Error, Init};
use sqlx::{AssertSqlSafe, Row as _, sqlite::SqliteRow};
use tempfile::TempDir;
use verification::versions::Versioned;

use crate::support::{sqlite::raw, versions::refused};

struct Versions {
    folder: TempDir,
    strategy: Strategy,
}

impl Versions {
    async fn start(strategy: Strategy) -> Self {
        let store = Self { folder: tempfile::tempdir().unwrap(), strategy };
        store.connect().await.unwrap().init(&Init::new()).await.unwrap();
        store
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    /// The first column of the last row.
    async fn sql(&self, text: &str) -> String {
        let mut file = raw(&self.file()).await;
        let rows = sqlx::query(AssertSqlSafe(text.to_owned())).fetch_all(&mut file).await.unwrap();
        let number = |row: &SqliteRow| row.try_get(0).map(|number: i64| number.to_string());
        let read = |row: &SqliteRow| row.try_get(0).or_else(|_| number(row)).unwrap();
        rows.last().map_or_else(String::new, read)
    }
}

#[async_trait]
impl Versioned for Versions {
    async fn connect(&self) -> Result<Arc<dyn Backend>, Error> {
        SqliteBuilder::new(self.file()).strategy(self.strategy).build().await
    }

    async fn plant(&self, version: u64) {
        // At once, as a step of `init` would: a client looks at any time.
        let (from, to) =
            if version == 1 { ("expires_2", "expires") } else { ("expires", "expires_2") };
        self.sql(&format!(
            "BEGIN IMMEDIATE; \
             ALTER TABLE leasehold_locks RENAME COLUMN {from} TO {to}; \
             UPDATE leasehold_settings SET version = {version}; COMMIT"
        ))
        .await;
    }

    async fn contents(&self) -> String {
        let locks = "SELECT group_concat(name || ',' || coalesce(owner, '') || ',' || token || ',' || version || ',' || lease, ';') \
            FROM leasehold_locks";
        let seen = "SELECT count(*) FROM leasehold_seen";
        let settings =
            "SELECT longest_lease || ',' || watermark || ',' || version FROM leasehold_settings";
        let mut all = Vec::new();
        for text in [locks, seen, settings] {
            all.push(self.sql(text).await);
        }
        all.join("\n")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_refused_in_every_step() {
    refused(Versions::start).await;
}

#[tokio::test]
async fn nothing_is_made_in_a_file_of_another_version() {
    let store = Versions::start(Strategy::PrimaryKey).await;
    store.plant(2).await;
    store.sql("DROP TABLE leasehold_seen").await;
    let error = store.connect().await.unwrap_err();
    assert!(error.to_string().contains("upgrade leasehold"), "{error}");
    let made = "SELECT count(*) FROM sqlite_master WHERE name = 'leasehold_seen'";
    assert_eq!(store.sql(made).await, "0");
}
