//! What all clients of a store in MySQL agree on, changed while it is used.

use crate::support::{
    mariadb::{start, url},
    settings::{change_settings, init_makes_missing_tables},
};
use backend_sql::mysql::connect;
use conformance_tests::kit::Server as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_lease_changes_while_locks_are_held_and_waited_for() {
    let server = start().await;
    change_settings(&url(server.address()), async |url| connect(&url).await).await;
}

#[tokio::test]
async fn init_makes_whichever_table_is_missing() {
    let server = start().await;
    let url = url(server.address());
    let drop = async |table: &str| {
        server.sql(&format!("DROP TABLE leasehold_{table}")).await.unwrap();
    };
    let tables = ["settings", "locks", "queue"];
    init_makes_missing_tables(&tables, async || connect(&url).await, drop, false).await;
}
