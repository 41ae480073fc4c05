//! The kit's PostgreSQL.

use std::{process::Command, time::Duration};

use servers::{Pgbouncer, Postgres, PostgresOptions, Server as _, programs, wait::until};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_killed_backend_resets_all_sessions_under_the_same_postmaster() {
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    postgres.sql("CREATE UNLOGGED TABLE u (x int); INSERT INTO u VALUES (1)").await.unwrap();
    let started = "SELECT pg_postmaster_start_time()";
    let before = postgres.sql(started).await.unwrap();
    let session = postgres.sql("SELECT pg_sleep(60)");
    let find = async {
        let find = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'";
        until("the session", SOON, || async {
            Ok(Some(postgres.sql(find).await?).filter(|pid| !pid.is_empty()))
        })
        .await
    };
    tokio::pin!(session);
    let pid = tokio::select! {
        pid = find => pid.unwrap().parse().unwrap(),
        ended = &mut session => panic!("{ended:?}"),
    };
    postgres.kill_backend(std::process::id()).await.unwrap_err();
    postgres.kill_backend(postgres.process().pid().unwrap()).await.unwrap_err();
    postgres.kill_backend(pid).await.unwrap();
    session.await.unwrap_err();
    assert_eq!(postgres.sql(started).await.unwrap(), before);
    assert_eq!(postgres.sql("SELECT count(*) FROM u").await.unwrap(), "0");
}

#[tokio::test]
async fn pgbouncer_gives_each_transaction_any_session() {
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    let pgbouncer = Pgbouncer::start(&postgres, 1).await.unwrap();
    let ask = |sql: &'static str| {
        let mut psql = Command::new(programs::find_postgres("psql").unwrap());
        psql.args(["-XAtq", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p"])
            .arg(pgbouncer.address().port().to_string())
            .env("PGSSLMODE", "disable")
            .args(["-c", sql]);
        async { programs::run(psql).await.unwrap() }
    };
    // Two clients, one session: the second one's is the first one's.
    let session = "SELECT pg_backend_pid()";
    assert_eq!(ask(session).await, ask(session).await);
}
