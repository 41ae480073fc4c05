//! What all clients of a store in PostgreSQL agree on, changed while it is used.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used)]

mod support;

use backend_sql::{Strategy, postgres::connect};
use conformance_tests::kit::{Data, Server as _};
use futures_util::future::join_all;
use lock_core::{Attempt, Init};

use self::support::{BOTH, SECOND, change_longest_lease, granted, made, open, request, start, url};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_lease_changes_while_locks_are_held_and_waited_for() {
    let server = start().await;
    let url = url(&server);
    join_all(BOTH.map(|strategy| {
        let prefix = strategy.to_string().replace('-', "_");
        let url = format!("{url}?strategy={strategy}&table_prefix={prefix}");
        change_longest_lease(async move |longest| {
            let told = longest.map(|longest| format!("&longest_lease={}s", longest.as_secs()));
            connect(&(url.clone() + &told.unwrap_or_default())).await
        })
    }))
    .await;
}

/// A lease of before may be running when the server crashes.
#[tokio::test]
async fn a_quarantine_is_as_long_as_the_longest_lease_ever_was() {
    let mut server = start().await;
    for (first, second) in [(60, 1), (1, 60)] {
        let store = made(&server, Strategy::PrimaryKey, first * SECOND).await;
        granted(&store, &request("job", first * SECOND)).await;
        let init = Init { longest_lease: Some(second * SECOND), ..Init::default() };
        store.init(&init).await.unwrap();
        server.restart(Data::Keep).await.unwrap();
        let store = open(&server, Strategy::PrimaryKey).await;
        assert_eq!(store.guarantees().longest_lease, second * SECOND);
        match store.try_acquire(&request("other", SECOND)).await.unwrap() {
            Attempt::Quarantined(held_back) => {
                assert!(held_back.remaining > 10 * SECOND, "{held_back:?}");
            }
            other => panic!("not held back: {other:?}"),
        }
    }
}
