//! Who may use a store in MySQL, and what a session has to be like.

use crate::support::mariadb::{
    BOTH, LEASE, assert_renewed, granted, made, prefix, request, session, start, url,
};
use crate::support::of_the_database;
use backend_sql::{
    Strategy,
    mysql::{MysqlFence, connect},
};
use lock_core::{
    Error, ErrorKind, FencingToken, Init, RecordWrite, ReleaseOptions, ReleaseOutcome, WriteOutcome,
};
use servers::Server as _;
use sqlx::{Connection as _, MySqlConnection};

/// What no waiting mends is not said to be retryable.
#[tokio::test]
async fn a_user_that_the_server_refuses_is_told_why() {
    let server = start().await;
    let create = "CREATE USER locked@'127.0.0.1' ACCOUNT LOCK; \
                  CREATE USER expired@'127.0.0.1' PASSWORD EXPIRE; \
                  GRANT ALL ON test.* TO expired@'127.0.0.1'; \
                  CREATE USER elsewhere@'127.0.0.1'";
    server.sql(create).await.unwrap();
    for (user, part) in
        [("locked", "locked"), ("expired", "expired"), ("elsewhere", "may not use this database")]
    {
        let url = url(server.address()).replace("root@", &format!("{user}@"));
        let error = connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// A user that may use the tables of locks and nothing else.
#[tokio::test]
async fn the_least_privilege_is_enough() {
    let server = start().await;
    for strategy in BOTH {
        made(&server, strategy).await;
        let prefix = prefix(strategy);
        let grants = format!(
            "CREATE USER IF NOT EXISTS worker@'127.0.0.1';
             GRANT SELECT, INSERT, UPDATE, DELETE ON test.{prefix}_locks TO worker@'127.0.0.1';
             GRANT SELECT, INSERT, UPDATE, DELETE ON test.{prefix}_queue TO worker@'127.0.0.1';
             GRANT SELECT, INSERT, UPDATE, DELETE ON test.{prefix}_records TO worker@'127.0.0.1';
             GRANT SELECT, UPDATE (watermark) ON test.{prefix}_settings TO worker@'127.0.0.1'"
        );
        server.sql(&grants).await.unwrap();
        let url = url(server.address()).replace("root@", "worker@");
        let url = format!("{url}&strategy={strategy}&table_prefix={prefix}");
        let store = connect(&url).await.unwrap();
        let ours = request("job");
        let grant = granted(&store, &ours).await;
        assert_renewed(&store, &grant).await;
        let done = RecordWrite::new("done", LEASE).unwrap();
        assert_eq!(store.write_record(&grant, &done).await.unwrap(), WriteOutcome::Written);
        assert!(store.read_record(&ours.name).await.unwrap().record.is_some());
        assert!(store.guarantees().exclusion.holds(), "it may read what is flushed");
        // As many as bring a sweep for sure, quickly.
        server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2").await.unwrap();
        for _ in 0..1_000 {
            let grant = granted(&store, &ours).await;
            store.raise(&grant, grant.token).await.unwrap();
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
        }
        store.abandon(&ours).await.unwrap();
        assert_eq!(store.force_release(&ours.name).await.unwrap(), ReleaseOutcome::NotHeld);
        assert!(store.list(None).await.unwrap().locks.is_empty());
        let init = Init::new().with_longest_lease(LEASE * 2);
        assert_eq!(store.init(&init).await.unwrap_err().kind(), ErrorKind::Auth);
        server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1").await.unwrap();
    }
}

#[tokio::test]
async fn the_fence_needs_its_table_only() {
    let server = start().await;
    let fence = MysqlFence::new("app").unwrap();
    fence.create(&mut session(&server).await).await.unwrap();
    let create = "CREATE USER worker@'127.0.0.1'; \
                  GRANT SELECT, INSERT, UPDATE ON test.app_fence TO worker@'127.0.0.1'";
    server.sql(create).await.unwrap();
    let url = url(server.address()).replace("root@", "worker@");
    let mut worker = MySqlConnection::connect(&url).await.unwrap();
    for number in [1, 2] {
        let token = FencingToken::new(number).unwrap();
        fence.admit(&mut worker, "account", token).await.unwrap();
    }
}

#[tokio::test]
async fn sessions_without_autocommit_are_refused() {
    let server = start().await;
    made(&server, Strategy::PrimaryKey).await;
    server.sql("SET GLOBAL autocommit = 0").await.unwrap();
    let error = connect(&format!("{}&table_prefix=primary_key", url(server.address()))).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("autocommit"), "{error}");
}

/// A view with SQL SECURITY INVOKER runs the functions of who made it as whoever reads it, also as
/// root.
#[tokio::test]
async fn views_of_another_user_are_not_read() {
    let server = start().await;
    let roles = "CREATE USER hostile@'127.0.0.1'; \
        CREATE DATABASE ours; CREATE TABLE ours.ran (id INT); \
        GRANT SELECT, CREATE VIEW, CREATE ROUTINE, EXECUTE ON test.* TO hostile@'127.0.0.1'";
    server.sql(roles).await.unwrap();
    let hostile = url(server.address()).replace("root@", "hostile@");
    let mut hostile = MySqlConnection::connect(&hostile).await.unwrap();
    let trap = "CREATE FUNCTION trap() RETURNS BIGINT SQL SECURITY INVOKER MODIFIES SQL DATA \
        BEGIN INSERT INTO ours.ran VALUES (1); RETURN 1; END";
    sqlx::raw_sql(trap).execute(&mut hostile).await.unwrap();
    let view = "CREATE SQL SECURITY INVOKER VIEW";
    let planted = format!(
        "{view} leasehold_settings AS SELECT 1 AS id, 30000000 AS longest_lease, trap() AS version; \
         {view} leasehold_fence AS SELECT 'account' AS resource, trap() AS token"
    );
    let ran = "SELECT COUNT(*) FROM ours.ran";
    let late = connect(&url(server.address())).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(planted)).execute(&mut hostile).await.unwrap();
    let fence = MysqlFence::new("leasehold").unwrap();
    let mut root = session(&server).await;
    let job = request("job");
    let token = FencingToken::new(1).unwrap();
    let refused = async |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("may be a view"), "{error}");
        assert_eq!(server.sql(ran).await.unwrap(), "0", "{error}");
    };
    refused(connect(&url(server.address())).await.unwrap_err()).await;
    refused(late.try_acquire(&job).await.unwrap_err()).await;
    refused(late.init(&Init::default()).await.unwrap_err()).await;
    refused(fence.create(&mut root).await.unwrap_err()).await;
    let admitting = fence.admit(&mut root, "account", token).await;
    refused(of_the_database(admitting.unwrap_err())).await;
    // The trap works.
    server.sql("SELECT * FROM test.leasehold_settings").await.unwrap();
    assert_eq!(server.sql(ran).await.unwrap(), "1");
}
