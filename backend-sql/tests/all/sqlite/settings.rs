//! The settings that all clients of a SQLite file share.

use crate::support::{
    settings::{change_settings, init_makes_missing_tables},
    sqlite::{LEASE, file, open, raw, request, used_once},
};
use backend_sql::{
    Strategy,
    sqlite::{SqliteBuilder, connect},
};
use lock_core::ErrorKind;
use sqlx::AssertSqlSafe;

/// Also if another client makes the file after this client was opened.
#[tokio::test]
async fn a_client_that_disagrees_is_refused_and_no_lease_is_longer_than_the_longest() {
    let (_folder, path) = file();
    let told = SqliteBuilder::new(&path).longest_lease(LEASE).build().await.unwrap();
    let not_told = open(&path, Strategy::PrimaryKey).await;
    let theirs = SqliteBuilder::new(&path).longest_lease(LEASE / 2).build().await.unwrap();
    let mut short = request("job");
    short.lease = LEASE / 2;
    used_once(&theirs, &short).await;
    let error = told.try_acquire(&short).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let error = not_told.try_acquire(&request("job")).await.unwrap_err();
    assert!(error.to_string().contains("longest lease, 5s"), "{error}");
    not_told.try_acquire(&short).await.unwrap().granted().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_lease_changes_while_locks_are_held_and_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    change_settings(&url, async |url| connect(&url).await).await;
}

#[tokio::test]
async fn init_makes_whichever_table_is_missing() {
    let (_folder, path) = file();
    let url = format!("sqlite:{}", path.display());
    let drop = async |table: &str| {
        let drop = format!("DROP TABLE leasehold_{table}");
        sqlx::query(AssertSqlSafe(drop)).execute(&mut raw(&path).await).await.unwrap();
    };
    let tables = ["settings", "locks", "seen", "abandoned", "queue"];
    init_makes_missing_tables(&tables, async || connect(&url).await, drop, false).await;
}
