//! MySQL when the network, the server or the caller fails half-way.

use crate::support::faults::{
    broken_attempt_is_in_doubt, drop_attempts, drop_outside_a_runtime, late_first_try,
    restart_breaks_no_attempt, silent_connections_cost_one_statement,
};
use crate::support::mariadb::{
    BOTH, LEASE, SECOND, WAIT, assert_renewed, counted, drop_acquires, granted, made,
    no_transaction_is_open, open, prefix, request, single, start, url, used_once,
};
use crate::support::unknown_errors;
use backend_sql::{
    Strategy,
    mysql::{MysqlBuilder, connect},
};
use futures_util::future::join_all;
use lock_core::{Attempt, Env as _, Init, LockClient, ReleaseOptions, Renewal, SystemEnv};
use servers::{Data, Mariadb, MariadbOptions, Mode, Proxy, Server as _, wait::until};
use sqlx::mysql::MySqlPoolOptions;
use tokio::time::timeout;

/// The attempt arrives and is granted, and its answer is lost: the outcome is unknown, and the
/// clean-up leaves nothing behind.
#[tokio::test]
async fn a_lost_answer_leaves_no_lock() {
    let server = start().await;
    for strategy in BOTH {
        let direct = made(&server, strategy).await;
        let proxy = Proxy::start(server.address()).await.unwrap();
        let (behind, _) = single(proxy.address(), strategy, 2 * SECOND).await;

        proxy.set(Mode::HalfCut).await.unwrap();
        let lost = request("warm");
        let error = behind.try_acquire(&lost).await.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
        assert!(proxy.counters().to_client.swallowed > 0, "the fault did not happen");
        let state = direct.inspect(&lost.name).await.unwrap().unwrap();
        assert_eq!(state.holder.unwrap().owner, lost.owner, "the attempt was to be carried out");
        proxy.set(Mode::Pass).await.unwrap();
        behind.abandon(&lost).await.unwrap();
        used_once(&direct, &request("warm")).await;
    }
}

#[tokio::test]
async fn an_attempt_whose_connection_broke_is_in_doubt_whatever_comes_after() {
    let server = start().await;
    for strategy in BOTH {
        let direct = made(&server, strategy).await;
        let proxy = Proxy::start(server.address()).await.unwrap();
        let (behind, _) = single(proxy.address(), strategy, 5 * SECOND).await;
        broken_attempt_is_in_doubt(&direct, &behind, &proxy).await;
    }
}

/// The connection is cut while the attempt is on its way; its caller gives up and cleans up, and
/// then the server reads it.
#[tokio::test]
async fn a_late_request_takes_nothing() {
    let options = MariadbOptions::new().flag("--general-log=1").flag("--log-output=TABLE");
    let server = Mariadb::start(options).await.unwrap();
    for strategy in BOTH {
        let direct = made(&server, strategy).await;
        let proxy = Proxy::start(server.address()).await.unwrap();
        let (behind, _) = single(proxy.address(), strategy, 2 * SECOND).await;

        proxy.set(Mode::Hold).await.unwrap();
        let late = request("warm");
        let error = behind.try_acquire(&late).await.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
        direct.abandon(&late).await.unwrap();
        proxy.set(Mode::Pass).await.unwrap();
        // The log has a statement once it has begun: the clean-up's, and then the late request's.
        let arrived = format!(
            "SELECT COUNT(*) > 0 FROM mysql.general_log WHERE command_type = 'Execute' \
             AND argument LIKE '%{}%' AND argument LIKE '%LAST_INSERT_ID%'",
            late.owner
        );
        let there = || async { Ok((server.sql(&arrived).await? == "1").then_some(())) };
        until("the late request", WAIT, there).await.unwrap();
        no_transaction_is_open(&server).await;
        let state = direct.inspect(&late.name).await.unwrap().unwrap();
        assert!(state.holder.is_none(), "{strategy}: {state:?}");
    }
}

/// The first try of an attempt is held up on its way, its connection breaks, and the store's own
/// repeat is answered. When all is over, the first try arrives.
#[tokio::test]
async fn a_late_first_try_takes_nothing_whatever_its_repeat_was_answered() {
    let server = start().await;
    for strategy in BOTH {
        let direct = made(&server, strategy).await;
        let open = async |near| single(near, strategy, WAIT).await.0;
        late_first_try(server.address(), direct, open).await;
    }
}

#[tokio::test]
async fn connections_that_go_silent_cost_one_statement() {
    let server = start().await;
    let strategy = Strategy::PrimaryKey;
    made(&server, strategy).await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let pool = MySqlPoolOptions::new().max_connections(4).test_before_acquire(false);
    let pool = pool.connect(&url(proxy.address())).await.unwrap();
    let builder = MysqlBuilder::with_pool(pool.clone()).table_prefix(prefix(strategy));
    let store = builder.timeout(5 * SECOND).build().await.unwrap();
    silent_connections_cost_one_statement(&store, &pool, &proxy).await;
}

#[tokio::test]
async fn an_unknown_error_is_final_after_one_lease() {
    let server = start().await;
    let store = open(&server, Strategy::PrimaryKey).await;
    store.init(&Init::new().with_longest_lease(SECOND)).await.unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON primary_key_locks FOR EACH ROW \
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no upstream'";
    server.sql(refuse).await.unwrap();
    unknown_errors::an_unknown_error_is_final(&store).await;
}

#[tokio::test]
async fn a_paused_server_is_an_error_in_time_and_not_a_loss() {
    let server = start().await;
    for strategy in BOTH {
        made(&server, strategy).await;
        let (store, _) = single(server.address(), strategy, 2 * SECOND).await;
        let grant = granted(&store, &request("job")).await;
        server.pause().unwrap();
        let error = store.try_acquire(&request("other")).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let answers = store.renew(&[&grant], SystemEnv.now()).await;
        assert!(matches!(answers[..], [Renewal::Unknown(_)]), "{answers:?}");
        server.resume().unwrap();
        assert_renewed(&store, &grant).await;
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
    }
}

#[tokio::test]
async fn an_acquire_dropped_after_any_poll_leaves_no_lock_and_no_transaction() {
    let server = start().await;
    for strategy in BOTH {
        let ours = LockClient::new(made(&server, strategy).await);
        let theirs = LockClient::new(open(&server, strategy).await);
        drop_acquires(&ours, &theirs).await;
        no_transaction_is_open(&server).await;
    }
}

#[tokio::test]
async fn a_statement_dropped_after_any_poll_leaves_its_pool_in_order() {
    let server = start().await;
    made(&server, Strategy::PrimaryKey).await;
    let (store, pool) = single(server.address(), Strategy::PrimaryKey, 5 * SECOND).await;
    let one = async || sqlx::query_scalar("SELECT 1").fetch_one(&pool).await.unwrap();
    drop_attempts(&store, &pool, one).await;
    no_transaction_is_open(&server).await;
}

#[tokio::test]
async fn a_pool_whose_connections_are_all_busy_is_an_error_in_time() {
    let server = start().await;
    let direct = made(&server, Strategy::PrimaryKey).await;
    let (store, pool) = single(server.address(), Strategy::PrimaryKey, 2 * SECOND).await;
    let theirs = pool.acquire().await.unwrap();
    let error = store.try_acquire(&request("job")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    drop(theirs);
    granted(&direct, &request("job")).await;
}

#[tokio::test]
async fn a_store_is_dropped_outside_a_runtime() {
    let server = start().await;
    drop(made(&server, Strategy::PrimaryKey).await);
    let url = format!("{}&table_prefix={}", url(server.address()), prefix(Strategy::PrimaryKey));
    drop_outside_a_runtime(move || {
        let url = url.clone();
        async move { connect(&url).await.unwrap() }
    });
}

#[tokio::test]
async fn a_restart_breaks_connections_and_no_attempt() {
    let mut server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        restart_breaks_no_attempt(&store, server.restart_cleanly()).await;
    }
}

/// Waits until the waiters have checked some times.
async fn wait_for_checks(server: &Mariadb) {
    let before = counted(server, "Com_stmt_execute").await;
    until("checks", WAIT, async || {
        Ok((counted(server, "Com_stmt_execute").await > before + 3).then_some(()))
    })
    .await
    .unwrap();
}

/// A waiter has no connection of the pool, and whoever gives up has given it back.
#[tokio::test]
async fn waiters_keep_no_connection() {
    let server = start().await;
    for strategy in BOTH {
        let holder = made(&server, strategy).await;
        let held = granted(&holder, &request("job")).await;
        let (store, pool) = single(server.address(), strategy, 5 * SECOND).await;
        let client = LockClient::new(store);
        let waiters: Vec<_> =
            (0..5).map(|_| tokio::spawn(client.lock("job").lease(LEASE).acquire())).collect();
        wait_for_checks(&server).await;
        for waiter in waiters {
            // One connection: this would wait for one who keeps it.
            drop(timeout(WAIT, pool.acquire()).await.unwrap().unwrap());
            waiter.abort();
            assert!(waiter.await.unwrap_err().is_cancelled());
            drop(timeout(WAIT, pool.acquire()).await.unwrap().unwrap());
        }
        holder.release(&held, ReleaseOptions::default()).await.unwrap();
        client.lock("job").acquire().await.unwrap().release().await.unwrap();
    }
}

/// A guard outlives a crash of the server, and so does a wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_while_held_and_while_waited_for_changes_nothing() {
    let mut server = start().await;
    for strategy in BOTH {
        let ours = LockClient::new(made(&server, strategy).await);
        let theirs = LockClient::new(open(&server, strategy).await);
        let guard = ours.lock("job").lease(LEASE).acquire().await.unwrap();
        let token = guard.token();
        let wait = theirs.lock("job").lease(LEASE).wait(WAIT);
        let waiting = tokio::spawn(async move { wait.acquire().await });
        wait_for_checks(&server).await;
        let before = server.process().pid().unwrap();
        server.kill().unwrap();
        server.restart(Data::Keep).await.unwrap();
        assert_ne!(server.process().pid().unwrap(), before, "the fault did not happen");
        assert!(guard.is_valid() && !waiting.is_finished());
        guard.release().await.unwrap();
        let next = waiting.await.unwrap().unwrap();
        assert!(next.token() > token, "{strategy}");
        next.release().await.unwrap();
    }
}

/// 64 clients with a connection each, on one name and on a name each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_on_one_name_and_on_sixty_four() {
    let options = MariadbOptions::new().flag("--innodb-flush-log-at-trx-commit=2");
    let server = Mariadb::start(options).await.unwrap();
    for strategy in BOTH {
        made(&server, strategy).await;
        let clients = join_all((0..64).map(async |_| {
            let pool = MySqlPoolOptions::new().max_connections(1).test_before_acquire(false);
            let pool = pool.connect_lazy(&url(server.address())).unwrap();
            let builder = MysqlBuilder::with_pool(pool).strategy(strategy);
            let builder = builder.table_prefix(prefix(strategy)).timeout(WAIT);
            LockClient::new(builder.build().await.unwrap())
        }))
        .await;
        for same in [true, false] {
            let mut tasks = Vec::new();
            for (at, client) in clients.iter().enumerate() {
                let client = client.clone();
                let name = if same { "job".to_owned() } else { format!("job {at}") };
                tasks.push(tokio::spawn(async move {
                    let mut tokens = Vec::new();
                    for _ in 0..2 {
                        let lock = client.lock(name.as_str()).lease(LEASE).wait(3 * WAIT);
                        let guard = lock.acquire().await.unwrap();
                        tokens.push(guard.token());
                        guard.release().await.unwrap();
                    }
                    tokens
                }));
            }
            let mut all = Vec::new();
            for task in tasks {
                let tokens = task.await.unwrap();
                assert!(tokens.is_sorted_by(|before, after| before < after));
                all.extend(tokens);
            }
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert!(count == 128 && (!same || all.len() == 128), "{strategy}");
        }
        for client in clients {
            client.close().await;
        }
        no_transaction_is_open(&server).await;
    }
}

/// A server that was not there at first.
#[tokio::test]
async fn a_server_that_is_down_is_unavailable_and_then_not() {
    let mut server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    server.kill().unwrap();
    let down = format!("{}&timeout=300ms", url(server.address()));
    let error = connect(&down).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    server.restart(Data::Keep).await.unwrap();
    let answer = store.try_acquire(&request("job")).await.unwrap();
    assert!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
}
