//! The fence in a SQLite file.

use backend_sql::sqlite::{SqliteBuilder, SqliteFence};
use lock_core::FenceError;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use crate::support::{sqlite::file, two_tokens};

#[tokio::test]
async fn a_fence_refuses_a_stale_token_with_the_write_that_it_came_with() {
    let (_folder, path) = file();
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    let fence = SqliteFence::new("leasehold").unwrap();
    fence.create(&mut pool.acquire().await.unwrap()).await.unwrap();
    sqlx::query("CREATE TABLE account (value INTEGER)").execute(&pool).await.unwrap();

    let store = SqliteBuilder::with_pool(pool.clone()).build().await.unwrap();
    let tokens = two_tokens(store).await;
    // The later holder writes first; the earlier one was paused.
    for (at, token) in [(1, tokens[1]), (0, tokens[0]), (1, tokens[1])] {
        let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let insert = sqlx::query("INSERT INTO account VALUES (?)").bind(at);
        insert.execute(&mut *transaction).await.unwrap();
        match fence.admit(&mut transaction, "account", token).await {
            Ok(()) => transaction.commit().await.unwrap(),
            Err(FenceError::Stale(stale)) => {
                assert_eq!((stale.offered, stale.admitted), (tokens[0], tokens[1]));
                transaction.rollback().await.unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    let values: Vec<i64> =
        sqlx::query_scalar("SELECT value FROM account").fetch_all(&pool).await.unwrap();
    assert_eq!(values, [1, 1]);
}
