//! What all clients of a SQLite file agree on.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

mod on_file;

use std::time::Duration;

use backend_sql::{
    Strategy,
    sqlite::{SqliteBuilder, connect},
};
use futures_util::future::join_all;
use lock_core::{ErrorKind, Init, Release};
use on_file::{BOTH, LEASE, change_longest_lease, open, request};

#[tokio::test]
async fn clients_agree_on_the_longest_lease_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let url = |query: &str| format!("sqlite:{}{query}", path.display());
    let store = connect(&url("?longest_lease=1m")).await.unwrap();
    let init = Init::default();
    assert_eq!(store.init(&init).await.unwrap().longest_lease, Duration::from_secs(60));
    let other = connect(&url("")).await.unwrap();
    assert_eq!(other.guarantees().longest_lease, Duration::from_secs(60));
    let error = connect(&url("?longest_lease=30s")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("30s") && error.to_string().contains("1m"), "{error}");
    let init = Init { longest_lease: Some(Duration::from_millis(1)), ..Init::default() };
    assert_eq!(store.init(&init).await.unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// Also where another makes the file after this client was opened.
#[tokio::test]
async fn a_client_that_disagrees_is_refused_and_no_lease_is_longer_than_the_longest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let told = SqliteBuilder::new(&path).longest_lease(LEASE).build().await.unwrap();
    let not_told = open(&path, Strategy::PrimaryKey).await;
    let theirs = SqliteBuilder::new(&path).longest_lease(LEASE / 2).build().await.unwrap();
    let mut short = request("job");
    short.lease = LEASE / 2;
    let grant = theirs.try_acquire(&short).await.unwrap().granted().unwrap();
    theirs.release(&grant, Release::default()).await.unwrap();
    let error = told.try_acquire(&short).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let error = not_told.try_acquire(&request("job")).await.unwrap_err();
    assert!(error.to_string().contains("longest lease, 5s"), "{error}");
    not_told.try_acquire(&short).await.unwrap().granted().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_lease_changes_while_locks_are_held_and_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    join_all(BOTH.map(|strategy| {
        let prefix = strategy.to_string().replace('-', "_");
        let url = format!("sqlite:{}?strategy={strategy}&table_prefix={prefix}", path.display());
        change_longest_lease(async move |longest| {
            let told = longest.map(|longest| format!("&longest_lease={}s", longest.as_secs()));
            connect(&(url.clone() + &told.unwrap_or_default())).await
        })
    }))
    .await;
}
