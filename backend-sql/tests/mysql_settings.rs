//! What all clients of a store in MySQL agree on, changed while it is used.
#![cfg(feature = "mysql")]
#![allow(clippy::unwrap_used)]

mod on_mariadb;

use backend_sql::mysql::connect;
use conformance_tests::kit::Server as _;
use futures_util::future::join_all;
use on_mariadb::{BOTH, change_longest_lease, prefix, start, url};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_lease_changes_while_locks_are_held_and_waited_for() {
    let server = start().await;
    let url = url(server.address());
    join_all(BOTH.map(|strategy| {
        let url = format!("{url}&strategy={strategy}&table_prefix={}", prefix(strategy));
        change_longest_lease(async move |longest| {
            let told = longest.map(|longest| format!("&longest_lease={}s", longest.as_secs()));
            connect(&(url.clone() + &told.unwrap_or_default())).await
        })
    }))
    .await;
}
