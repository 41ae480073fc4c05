//! The fence on a real PostgreSQL server.

use backend_sql::postgres::{PostgresBuilder, PostgresFence};
use futures_util::future::join_all;
use lock_core::{ErrorKind, FenceError, FencingToken, Init};
use sqlx::{Connection as _, PgConnection, PgPool};

use crate::support::postgres::{start, url};
use crate::support::{of_the_database, two_tokens};

/// Processes start at the same time, and each makes the table, half of them in a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_make_the_fence_at_once_have_made_it() {
    let server = start().await;
    let token = FencingToken::new(7).unwrap();
    let mut sessions = Vec::new();
    for _ in 0..16 {
        sessions.push(PgConnection::connect(&url(&server)).await.unwrap());
    }
    for round in 0..10 {
        let each = sessions.iter_mut().enumerate().map(async |(at, session)| {
            let fence = PostgresFence::new(&format!("round_{round}")).unwrap();
            if at % 2 == 0 {
                fence.create(session).await.unwrap();
                fence.admit(session, "account", token).await.unwrap();
                return;
            }
            let mut transaction = session.begin().await.unwrap();
            fence.create(&mut transaction).await.unwrap();
            fence.admit(&mut transaction, "account", token).await.unwrap();
            transaction.commit().await.unwrap();
        });
        join_all(each).await;
        let rows = format!("SELECT string_agg(token::text, ' ') FROM round_{round}_fence");
        assert_eq!(server.sql(&rows).await.unwrap(), "7");
    }
}

/// An error is retryable only if a repeat can succeed.
#[tokio::test]
async fn errors_of_a_fence_name_their_cause() {
    let server = start().await;
    let mut session = PgConnection::connect(&url(&server)).await.unwrap();
    let (fence, token) = (PostgresFence::new("app").unwrap(), FencingToken::new(7).unwrap());
    let error = of_the_database(fence.admit(&mut session, "account", token).await.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("`create`"), "{error}");
    fence.create(&mut session).await.unwrap();
    fence.admit(&mut session, "account", token).await.unwrap();
    let mut later = session.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    sqlx::raw_sql("SELECT * FROM app_fence").execute(&mut *later).await.unwrap();
    server.sql("UPDATE app_fence SET token = token").await.unwrap();
    let error = of_the_database(fence.admit(&mut later, "account", token).await.unwrap_err());
    assert!(error.is_retryable() && error.to_string().contains("begin it anew"), "{error}");
}

/// Something that is not a table has the table's name: that is an error.
#[tokio::test]
async fn a_name_that_is_taken_otherwise_is_an_error() {
    let server = start().await;
    server.sql("CREATE DOMAIN app_fence AS text").await.unwrap();
    let mut session = PgConnection::connect(&url(&server)).await.unwrap();
    PostgresFence::new("app").unwrap().create(&mut session).await.unwrap_err();
}

#[tokio::test]
async fn a_fence_refuses_a_stale_token_with_the_write_that_it_came_with() {
    let server = start().await;
    let pool = PgPool::connect(&url(&server)).await.unwrap();
    let fence = PostgresFence::new("leasehold").unwrap();
    fence.create(&mut pool.acquire().await.unwrap()).await.unwrap();
    sqlx::query("CREATE TABLE account (value bigint)").execute(&pool).await.unwrap();
    let store = PostgresBuilder::with_pool(pool.clone()).build().await.unwrap();
    store.init(&Init::default()).await.unwrap();
    let tokens = two_tokens(store).await;
    for (at, token) in [(1_i64, tokens[1]), (0, tokens[0]), (1, tokens[1])] {
        let mut transaction = pool.begin().await.unwrap();
        let insert = sqlx::query("INSERT INTO account VALUES ($1)").bind(at);
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
