//! The fence on a real MariaDB server.

use backend_sql::mysql::MysqlFence;
use futures_util::future::join_all;
use lock_core::{ErrorKind, FenceError, FencingToken};
use servers::{Mariadb, MariadbOptions, Server as _};
use sqlx::{Connection as _, MySqlConnection};

use crate::support::of_the_database;

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

#[tokio::test]
async fn the_fence_refuses_stale_tokens_and_goes_with_its_transaction() {
    let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    let fence = MysqlFence::new("app").unwrap();
    let error = of_the_database(fence.admit(&mut connection, "a", token(5)).await.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("`create`"), "{error}");
    fence.create(&mut connection).await.unwrap();
    fence.create(&mut connection).await.unwrap();

    fence.admit(&mut connection, "a", token(5)).await.unwrap();
    fence.admit(&mut connection, "a", token(5)).await.unwrap();
    let Err(FenceError::Stale(stale)) = fence.admit(&mut connection, "a", token(4)).await else {
        panic!("admitted")
    };
    assert_eq!((stale.offered, stale.admitted), (token(4), token(5)));

    // Neither case nor spaces at the end make two resources one.
    for other in ["A", "a ", "ä"] {
        fence.admit(&mut connection, other, token(1)).await.unwrap();
    }

    let mut transaction = connection.begin().await.unwrap();
    fence.admit(&mut transaction, "a", token(9)).await.unwrap();
    transaction.rollback().await.unwrap();
    fence.admit(&mut connection, "a", token(6)).await.unwrap();
    assert_eq!(server.sql("SELECT token FROM app_fence WHERE resource = 'a'").await.unwrap(), "6");

    // A stale write goes with its transaction.
    let table = "CREATE TABLE account (value BIGINT) ENGINE = InnoDB";
    server.sql(table).await.unwrap();
    for number in [7, 6, 7] {
        let mut transaction = connection.begin().await.unwrap();
        let write = sqlx::query("INSERT INTO account VALUES (?)").bind(number as i64);
        write.execute(&mut *transaction).await.unwrap();
        match fence.admit(&mut transaction, "a", token(number)).await {
            Ok(()) => transaction.commit().await.unwrap(),
            Err(FenceError::Stale(stale)) => {
                assert_eq!((stale.offered, stale.admitted), (token(number), token(7)));
                transaction.rollback().await.unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    let written = "SELECT GROUP_CONCAT(value) FROM account";
    assert_eq!(server.sql(written).await.unwrap(), "7,7");
    let engine = "SELECT engine FROM information_schema.tables WHERE table_name = 'app_fence'";
    assert_eq!(server.sql(engine).await.unwrap(), "InnoDB");

    let long = "x".repeat(513);
    let error = of_the_database(fence.admit(&mut connection, &long, token(1)).await.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    connection.close().await.unwrap();
}

/// Processes that start at once, each of which makes the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_make_the_fence_at_once_have_made_it() {
    let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
    let mut sessions = Vec::new();
    for _ in 0..16 {
        sessions.push(MySqlConnection::connect(&url).await.unwrap());
    }
    for round in 0..10 {
        let each = sessions.iter_mut().map(async |session| {
            let fence = MysqlFence::new(&format!("round_{round}")).unwrap();
            fence.create(session).await.unwrap();
            fence.admit(session, "account", token(7)).await.unwrap();
        });
        join_all(each).await;
        let rows = format!("SELECT GROUP_CONCAT(token) FROM round_{round}_fence");
        assert_eq!(server.sql(&rows).await.unwrap(), "7");
    }
}
