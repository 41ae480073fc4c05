//! What all clients of a store in MySQL agree on, changed while it is used.

use crate::support::{
    mariadb::{request, start, url, used_once},
    settings::{change_settings, init_makes_missing_tables},
};
use backend_sql::mysql::{connect, schema};
use futures_util::future::join_all;
use lock_core::Init;
use servers::Server as _;

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

/// An `init` that was interrupted leaves the first tables, with or without the row of settings.
#[tokio::test]
async fn init_completes_what_an_interrupted_one_has_begun() {
    let server = start().await;
    let sql = schema(&url(server.address())).unwrap();
    let sql: Vec<_> = sql.lines().filter(|line| !line.starts_with("--")).collect();
    let sql = sql.join("\n");
    let statements: Vec<_> = sql.split_inclusive(";\n").collect();
    // The last ones are for older tables.
    for done in 0..=4 {
        server.sql("DROP DATABASE test; CREATE DATABASE test").await.unwrap();
        let begun = format!("USE test; {}", statements[..done].concat());
        server.sql(&begun).await.unwrap();
        let store = connect(&url(server.address())).await.unwrap();
        store.init(&Init::default()).await.unwrap();
        used_once(&store, &request("job")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_clients_make_the_store_at_once() {
    let server = start().await;
    let url = url(server.address());
    for _ in 0..5 {
        server.sql("DROP DATABASE test; CREATE DATABASE test").await.unwrap();
        let stores: Vec<_> =
            join_all((0..6).map(|_| connect(&url))).await.into_iter().map(Result::unwrap).collect();
        let init = Init::default();
        for made in join_all(stores.iter().map(|store| store.init(&init))).await {
            made.unwrap();
        }
    }
}
