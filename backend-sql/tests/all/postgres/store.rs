//! PostgreSQL, on real servers, beyond what the suite asks of every store.

use backend_sql::{
    Strategy,
    postgres::{connect, schema},
};
use lock_core::{Env as _, ErrorKind, LockClient, ReleaseOptions, Renewal, SystemEnv};
use servers::{Postgres, PostgresOptions};
use sqlx::{Connection as _, Executor as _};

use crate::support::postgres::{
    BLOCKED, BOTH, WAIT, count, granted, made_apart as made, says, start, url,
};
use crate::support::request;

#[tokio::test]
async fn a_store_without_tables_says_how_to_make_them() {
    let server = start().await;
    let store = connect(&url(&server)).await.unwrap();
    let error = store.try_acquire(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("init` makes them"), "{error}");
    // The printed schema does as well, and twice does no harm.
    for _ in 0..2 {
        server.sql(&schema(&url(&server)).unwrap()).await.unwrap();
    }
    granted(&store, &request("job")).await;
    let error = connect(&format!("{}?longest_lease=1m", url(&server))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

/// With any settings of the sessions: the store repeats conflicts itself, and the time zone does
/// not matter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_count_without_losing_one_at_any_isolation_level() {
    let options = PostgresOptions::new()
        .line("timezone = 'Pacific/Kiritimati'")
        .line("datestyle = 'German, DMY'")
        .line("intervalstyle = 'sql_standard'")
        .line("standard_conforming_strings = off")
        .line("extra_float_digits = -15");
    let server = Postgres::start(options).await.unwrap();
    for level in ["read committed", "repeatable read", "serializable"] {
        let set = format!("ALTER ROLE postgres SET default_transaction_isolation = '{level}'");
        server.sql(&set).await.unwrap();
        for (strategy, prepare) in BOTH.into_iter().zip(["on", "off"]) {
            println!("{level}, {strategy}");
            made(&server, strategy).await;
            let prefix = strategy.to_string().replace('-', "_");
            let url = url(&server);
            let to = format!(
                "{url}?strategy={strategy}&table_prefix={prefix}&prepare={prepare}&timeout=60s"
            );
            let mut clients = Vec::new();
            for _ in 0..4 {
                clients.push(LockClient::new(connect(&to).await.unwrap()));
            }
            count(clients, 10).await;
            // A conflict is made, since those clients may not meet: an attempt waits for a row that
            // another transaction has changed.
            let store = connect(&to).await.unwrap();
            let name = format!("conflict {level}");
            let held = granted(&store, &request(&name)).await;
            store.release(&held, ReleaseOptions::default()).await.unwrap();
            let mut other = sqlx::PgConnection::connect(&url).await.unwrap();
            let change = format!("BEGIN; UPDATE {prefix}_locks SET label = 'changed'");
            other.execute(sqlx::AssertSqlSafe(change)).await.unwrap();
            let waiting = tokio::spawn(async move { granted(&store, &request(&name)).await });
            says(&server, BLOCKED, "1").await;
            other.execute("COMMIT").await.unwrap();
            waiting.await.unwrap();
        }
    }
    // The server has rolled conflicts back.
    let refused = "SELECT xact_rollback > 0 FROM pg_stat_database WHERE datname = 'postgres'";
    says(&server, refused, "t").await;
}

/// A user's transaction locks our rows in the wrong order. A renewal that waits for one of them has
/// locked no other, so this is no deadlock. (A deadlock would last longer than this test waits.)
#[tokio::test]
async fn a_users_transaction_that_locks_in_another_order_is_no_deadlock() {
    let server =
        Postgres::start(PostgresOptions::new().line("deadlock_timeout = 1h")).await.unwrap();
    let store = made(&server, Strategy::PrimaryKey).await;
    let grants = [granted(&store, &request("a")).await, granted(&store, &request("b")).await];
    let mut operator = sqlx::PgConnection::connect(&url(&server)).await.unwrap();
    operator.execute("BEGIN").await.unwrap();
    let lock = async |operator: &mut sqlx::PgConnection, name: &str| {
        let lock = sqlx::query("SELECT 1 FROM primary_key_locks WHERE name = $1 FOR UPDATE");
        let locked = tokio::time::timeout(WAIT, lock.bind(name).execute(operator)).await;
        locked.unwrap().unwrap();
    };
    lock(&mut operator, "b").await;
    let renewing =
        tokio::spawn(async move { store.renew(&[&grants[0], &grants[1]], SystemEnv.now()).await });
    says(&server, BLOCKED, "1").await;
    lock(&mut operator, "a").await;
    operator.execute("COMMIT").await.unwrap();
    let answers = renewing.await.unwrap();
    assert!(
        matches!(answers[..], [Renewal::Renewed { .. }, Renewal::Renewed { .. }]),
        "{answers:?}"
    );
}
