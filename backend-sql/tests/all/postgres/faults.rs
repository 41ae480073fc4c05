//! PostgreSQL when the network, the server or the caller fails half-way.

use std::{net::SocketAddr, sync::Arc};

use backend_sql::{
    Strategy,
    postgres::{PostgresBuilder, PostgresFence, connect},
};
use lock_core::{
    Backend, Env as _, ErrorKind, FencingToken, Init, RecordWrite, ReleaseOptions, Renewal,
    SystemEnv, WriteOutcome,
};
use servers::{Postgres, Proxy, Server as _, wait::until};
use sqlx::{Connection as _, Executor as _, PgPool, postgres::PgPoolOptions};

use crate::support::{
    WAIT,
    faults::{
        broken_attempt_is_in_doubt, drop_attempts, drop_outside_a_runtime, late_first_try,
        restart_breaks_no_attempt, silent_connections_cost_one_statement,
    },
    postgres::{BLOCKED, BOTH, LEASE, SECOND, assert_renewed, granted, made, start, used_once},
    request, unknown_errors,
};

fn url(address: SocketAddr, strategy: Strategy, timeout: &str) -> String {
    format!("postgres://postgres@{address}/postgres?strategy={strategy}&timeout={timeout}")
}

async fn open(address: SocketAddr, strategy: Strategy) -> Arc<dyn Backend> {
    let store = connect(&url(address, strategy, "10s")).await.unwrap();
    store.init(&Init::default()).await.unwrap();
    store
}

fn address(at: SocketAddr) -> String {
    format!("postgres://postgres@{at}/postgres")
}

async fn single(at: SocketAddr) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    pool.connect(&address(at)).await.unwrap()
}

/// A store behind a proxy. Its one connection is open, and its statements are prepared, before the
/// fault.
async fn warmed(proxy: SocketAddr, strategy: Strategy) -> Arc<dyn Backend> {
    warmed_with(proxy, |builder| builder.strategy(strategy).timeout(2 * SECOND)).await
}

async fn warmed_with(
    proxy: SocketAddr,
    how: impl FnOnce(PostgresBuilder) -> PostgresBuilder,
) -> Arc<dyn Backend> {
    let pool = single(proxy).await;
    let store = how(PostgresBuilder::with_pool(pool.clone())).build().await.unwrap();
    // Twice, because a released name is taken by another statement than a new one.
    for _ in 0..2 {
        used_once(&store, &request("warm")).await;
    }
    // The pool looks at a connection that is given back before it lies ready.
    let ready = || async { Ok((pool.num_idle() == 1).then_some(())) };
    until("the connection to be idle", WAIT, ready).await.unwrap();
    store
}

#[tokio::test]
async fn an_attempt_whose_connection_broke_is_in_doubt_whatever_comes_after() {
    let server = start().await;
    for strategy in BOTH {
        let direct = open(server.address(), strategy).await;
        let proxy = Proxy::start(server.address()).await.unwrap();
        let behind = warmed(proxy.address(), strategy).await;
        broken_attempt_is_in_doubt(&direct, &behind, &proxy).await;
    }
}

/// The first try of an attempt is delayed, its connection breaks, and the store's own repeat is
/// answered. The first try arrives when all is over.
#[tokio::test]
async fn a_late_first_try_takes_nothing_whatever_its_repeat_was_answered() {
    let server = start().await;
    for strategy in BOTH {
        let direct = open(server.address(), strategy).await;
        let open = async |near| {
            // Without a connection for messages: the proxies have the attempts alone.
            warmed_with(near, |builder| builder.strategy(strategy).timeout(WAIT).listen(false))
                .await
        };
        late_first_try(server.address(), direct, open).await;
    }
}

#[tokio::test]
async fn connections_that_go_silent_cost_one_statement() {
    let server = start().await;
    open(server.address(), Strategy::PrimaryKey).await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let pool = PgPoolOptions::new().max_connections(4).test_before_acquire(false);
    let pool = pool.connect(&address(proxy.address())).await.unwrap();
    let builder = PostgresBuilder::with_pool(pool.clone()).listen(false).timeout(5 * SECOND);
    let store = builder.build().await.unwrap();
    silent_connections_cost_one_statement(&store, &pool, &proxy).await;
}

#[tokio::test]
async fn an_unknown_error_is_final_after_one_lease() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey, SECOND).await;
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN RAISE EXCEPTION 'no upstream'; END $$; \
        CREATE TRIGGER refuse BEFORE INSERT ON leasehold_locks FOR EACH ROW EXECUTE FUNCTION refuse()";
    server.sql(refuse).await.unwrap();
    unknown_errors::an_unknown_error_is_final(&store).await;
}

#[tokio::test]
async fn a_paused_server_is_an_error_in_time_and_not_a_loss() {
    let server = start().await;
    open(server.address(), Strategy::PrimaryKey).await;
    let store = warmed(server.address(), Strategy::PrimaryKey).await;
    let grant = granted(&store, &request("job")).await;
    server.pause().unwrap();
    let error = store.try_acquire(&request("other")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let answers = store.renew(&[&grant], SystemEnv.now()).await;
    assert!(matches!(answers[..], [Renewal::Unknown(_)]), "{answers:?}");
    server.resume().unwrap();
    let renewed = || async {
        match store.renew(&[&grant], SystemEnv.now()).await.remove(0) {
            Renewal::Renewed { .. } => Ok(Some(())),
            Renewal::Unknown(_) => Ok(None),
            lost => panic!("the lock was lost by a pause: {lost:?}"),
        }
    };
    until("a renewal", WAIT, renewed).await.unwrap();
}

async fn no_transaction_is_open(server: &Postgres) {
    let open = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    assert_eq!(server.sql(open).await.unwrap(), "0");
}

#[tokio::test]
async fn a_statement_dropped_after_any_poll_leaves_its_pool_in_order() {
    let server = start().await;
    for strategy in BOTH {
        open(server.address(), strategy).await;
        let pool = single(server.address()).await;
        let builder = PostgresBuilder::with_pool(pool.clone()).strategy(strategy);
        let store = builder.timeout(WAIT).build().await.unwrap();
        let one = async || sqlx::query_scalar("SELECT 1::bigint").fetch_one(&pool).await.unwrap();
        drop_attempts(&store, &pool, one).await;
        no_transaction_is_open(&server).await;
    }
}

/// A statement that hangs behind a row does not occupy a connection of the pool for as long as it
/// hangs.
#[tokio::test]
async fn a_statement_that_is_given_up_takes_its_connection_along() {
    let server = start().await;
    for strategy in BOTH {
        let direct = open(server.address(), strategy).await;
        let store = warmed(server.address(), strategy).await;
        let mut operator = sqlx::PgConnection::connect(&address(server.address())).await.unwrap();
        // Made anew where a sweep has just forgotten it.
        let lock = "BEGIN; INSERT INTO leasehold_locks (name, token, version, expires, kept) \
                    VALUES ('warm', 1, 1, now(), false) \
                    ON CONFLICT (name) DO UPDATE SET version = leasehold_locks.version";
        operator.execute(lock).await.unwrap();
        let hanging = request("warm");
        let error = store.try_acquire(&hanging).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_eq!(server.sql(BLOCKED).await.unwrap(), "1", "the fault did not happen");
        // On the pool's only connection.
        used_once(&store, &request("other")).await;
        assert_eq!(server.sql(BLOCKED).await.unwrap(), "1");
        operator.execute("COMMIT").await.unwrap();
        store.abandon(&hanging).await.unwrap();
        used_once(&direct, &request("warm")).await;
    }
}

/// A role that may use the tables of locks and nothing else.
#[tokio::test]
async fn the_least_privilege_is_enough() {
    let server = start().await;
    for strategy in BOTH {
        open(server.address(), strategy).await;
    }
    let fence = PostgresFence::new("leasehold").unwrap();
    let mut operator = sqlx::PgConnection::connect(&address(server.address())).await.unwrap();
    fence.create(&mut operator).await.unwrap();
    let worker = "CREATE ROLE worker LOGIN;
             REVOKE CREATE ON SCHEMA public FROM PUBLIC;
             GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold_locks, leasehold_queue, leasehold_marker, leasehold_records TO worker;
             GRANT SELECT ON leasehold_settings TO worker;
             GRANT SELECT, INSERT, UPDATE ON leasehold_fence TO worker";
    server.sql(worker).await.unwrap();
    for strategy in BOTH {
        let url = url(server.address(), strategy, "10s").replace("postgres@", "worker@");
        let store = connect(&url).await.unwrap();
        let ours = request(&strategy.to_string());
        let grant = store.try_acquire(&ours).await.unwrap().granted().unwrap();
        assert_renewed(&store, &grant).await;
        let done = RecordWrite::new("done", LEASE).unwrap();
        assert_eq!(store.write_record(&grant, &done).await.unwrap(), WriteOutcome::Written);
        assert!(store.read_record(&ours.name).await.unwrap().record.is_some());
        // As many as bring a sweep for sure.
        for _ in 0..1_000 {
            let grant = store.try_acquire(&ours).await.unwrap().granted().unwrap();
            store.raise(&grant, grant.token).await.unwrap();
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
        }
        store.abandon(&ours).await.unwrap();
        assert!(store.list(None).await.unwrap().locks.is_empty());
        let init = Init::new().with_longest_lease(LEASE * 2);
        assert_eq!(store.init(&init).await.unwrap_err().kind(), ErrorKind::Auth);
    }
    let worker = address(server.address()).replace("postgres@", "worker@");
    let mut worker = sqlx::PgConnection::connect(&worker).await.unwrap();
    for number in [1, 2] {
        let token = FencingToken::new(number).unwrap();
        fence.admit(&mut worker, "account", token).await.unwrap();
    }
}

#[tokio::test]
async fn a_store_is_dropped_outside_a_runtime() {
    let server = start().await;
    let address = server.address();
    drop_outside_a_runtime(move || open(address, Strategy::PrimaryKey));
}

#[tokio::test]
async fn a_restart_breaks_connections_and_no_attempt() {
    let mut server = start().await;
    let store = open(server.address(), Strategy::PrimaryKey).await;
    restart_breaks_no_attempt(&store, server.restart_cleanly()).await;
}
