//! MySQL's row locks: statements that wait for one, and deadlocks, each scripted.

use std::{pin::pin, sync::Arc};

use crate::support::mariadb::{
    BOTH, LEVELS, SECOND, WAIT, counted, granted, isolate, made, no_transaction_is_open, open,
    prefix, request, session, single, start, used_once, waiting_for_rows,
};
use backend_sql::Strategy;
use futures_util::poll;
use lock_core::{Attempt, Backend, Env as _, ErrorKind, Init, Renewal, Request, SystemEnv};
use servers::{Clock, Mariadb, MariadbOptions, Server as _, wait::until};
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};
use tokio::task::JoinHandle;

async fn run(session: &mut MySqlConnection, sql: String) {
    session.execute(AssertSqlSafe(sql)).await.unwrap();
}

/// Another transaction that has the row of `name`, made anew where a sweep has just forgotten it:
/// who waits for a row that is not there takes the name as a new one.
async fn lock_row(session: &mut MySqlConnection, strategy: Strategy, name: &str) {
    run(session, "BEGIN".into()).await;
    let prefix = prefix(strategy);
    let lock = format!(
        "INSERT INTO {prefix}_locks (name, token, version, expires, kept) VALUES ('{name}', 1, 1, 0, 0) \
         ON DUPLICATE KEY UPDATE version = version"
    );
    run(session, lock).await;
}

fn attempt(store: &Arc<dyn Backend>, request: &Request) -> JoinHandle<Attempt> {
    let (store, request) = (Arc::clone(store), request.clone());
    tokio::spawn(async move { store.try_acquire(&request).await.unwrap() })
}

/// Each isolation level, strategy, and a name that the client of [`single`] has had and one that it
/// has not: the statements differ.
fn everything(levels: &[&'static str]) -> Vec<(&'static str, Strategy, &'static str)> {
    let mut all = Vec::new();
    for level in levels {
        for strategy in BOTH {
            all.extend(["warm", "cold"].map(|name| (*level, strategy, name)));
        }
    }
    all
}

/// The attempt is read before its tombstone, and gets the row only after the clean-up has asked for
/// it.
#[tokio::test]
async fn a_late_request_that_waits_for_its_row_takes_nothing() {
    let server = start().await;
    let mut operator = session(&server).await;
    for (level, strategy, name) in everything(&LEVELS) {
        isolate(&server, level).await;
        let direct = made(&server, strategy).await;
        let (behind, _) = single(server.address(), strategy, 2 * SECOND).await;
        used_once(&direct, &request(name)).await;
        lock_row(&mut operator, strategy, name).await;
        let late = request(name);
        let error = behind.try_acquire(&late).await.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
        waiting_for_rows(&server, 1).await;
        // Another one, which finds the row as it is once the operator and the late request have
        // gone.
        let cleaner = Arc::clone(&direct);
        let abandoned = late.clone();
        let cleaning = tokio::spawn(async move { cleaner.abandon(&abandoned).await.unwrap() });
        waiting_for_rows(&server, 2).await;
        run(&mut operator, "COMMIT".into()).await;
        cleaning.await.unwrap();
        no_transaction_is_open(&server).await;
        let state = direct.inspect(&late.name).await.unwrap().unwrap();
        assert!(state.holder.is_none(), "{level}, {strategy}, {name}: {state:?}");
        used_once(&direct, &request(name)).await;
    }
}

/// The clean-up is through before the late request has the row: so it is where the server does not
/// give row locks in order. Played by writing its tombstone by hand while the row is locked.
#[tokio::test]
async fn a_late_request_overtaken_by_its_clean_up_takes_nothing() {
    let server = start().await;
    let mut operator = session(&server).await;
    for (level, strategy, name) in everything(&LEVELS[..2]) {
        isolate(&server, level).await;
        let direct = made(&server, strategy).await;
        let (behind, _) = single(server.address(), strategy, 2 * SECOND).await;
        let first = used_once(&direct, &request(name)).await;
        lock_row(&mut operator, strategy, name).await;
        let late = request(name);
        let error = behind.try_acquire(&late).await.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
        waiting_for_rows(&server, 1).await;
        let prefix = prefix(strategy);
        let owner = late.owner;
        let clean_up = format!(
            "UPDATE {prefix}_locks SET version = version + 1, buried = '{owner}', buried_at = 1e16 \
             WHERE name = '{name}'"
        );
        run(&mut operator, clean_up).await;
        run(&mut operator, "COMMIT".into()).await;
        no_transaction_is_open(&server).await;
        let state = direct.inspect(&late.name).await.unwrap().unwrap();
        let row = format!("SELECT * FROM {prefix}_locks WHERE name = '{name}'");
        let row = server.sql(&row).await.unwrap();
        assert!(
            state.holder.is_none(),
            "{level}, {strategy}, {name}, first {}, late {owner} ({error}): {state:?}, {row}",
            first.owner
        );
    }
}

/// A statement counts from before its wait for a row, as its client does.
#[tokio::test]
async fn a_grant_that_waited_for_its_row_is_not_valid_for_longer_than_it_is_stored() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        used_once(&store, &request("job")).await;
        let mut operator = session(&server).await;
        lock_row(&mut operator, strategy, "job").await;
        let wanted = request("job");
        let waiting = attempt(&store, &wanted);
        waiting_for_rows(&server, 1).await;
        run(&mut operator, "COMMIT".into()).await;
        let grant = waiting.await.unwrap().granted().unwrap();
        let state = store.inspect(&wanted.name).await.unwrap().unwrap();
        let believed = (grant.from + grant.lease).since(SystemEnv.now());
        assert!(state.holder.unwrap().remaining >= believed.saturating_sub(SECOND / 100));
    }
}

/// The clock is set back after a renewal, and before it is asked which of the batch it has renewed:
/// what had ended by then is not held again.
#[tokio::test]
async fn a_renewal_is_told_by_the_clock_that_it_was_made_by() {
    let clock = Clock::new().await.unwrap();
    let server = Mariadb::start(MariadbOptions::new().clock(&clock)).await.unwrap();
    for strategy in BOTH {
        // Leases that no machine is too slow for.
        let init = Init::new().with_longest_lease(600 * SECOND);
        made(&server, strategy).await.init(&init).await.unwrap();
        let (store, pool) = single(server.address(), strategy, WAIT).await;
        let [mut short, mut long] = ["ended", "lasting"].map(request);
        (short.lease, long.lease) = (300 * SECOND, 600 * SECOND);
        let (ended, lasting) = (granted(&store, &short).await, granted(&store, &long).await);
        clock.step(400.0).unwrap();
        let mut operator = session(&server).await;
        lock_row(&mut operator, strategy, "lasting").await;
        let renewal =
            tokio::spawn(async move { store.renew(&[&ended, &lasting], SystemEnv.now()).await });
        waiting_for_rows(&server, 1).await;
        // The pool's only connection, between the two statements.
        let mut between = pin!(pool.acquire());
        assert!(poll!(&mut between).is_pending());
        run(&mut operator, "COMMIT".into()).await;
        let between = between.await.unwrap();
        clock.step(-400.0).unwrap();
        drop(between);
        let answers = renewal.await.unwrap();
        assert!(matches!(answers[..], [Renewal::Lost(_), Renewal::Renewed { .. }]), "{answers:?}");
        let again = open(&server, strategy).await.inspect(&short.name).await.unwrap().unwrap();
        assert!(again.holder.is_some(), "the fault did not happen");
    }
}

/// Two attempts wait for a third's insert of the same name; it rolls back, both then lock the gap,
/// and neither may insert into it.
#[tokio::test]
async fn a_gap_lock_deadlock_is_repeated_and_not_shown() {
    let server = start().await;
    let mut operator = session(&server).await;
    let mut seen = 0;
    for (level, strategy) in LEVELS.iter().flat_map(|level| BOTH.map(|each| (*level, each))) {
        isolate(&server, level).await;
        let (one, other) = (made(&server, strategy).await, open(&server, strategy).await);
        let name = format!("new at {level}");
        let prefix = prefix(strategy);
        run(&mut operator, "BEGIN".into()).await;
        let insert = format!(
            "INSERT INTO {prefix}_locks (name, token, version, expires, kept) VALUES ('{name}', 1, 1, 0, 0)"
        );
        run(&mut operator, insert).await;
        let before = counted(&server, "Innodb_deadlocks").await;
        let attempts = [attempt(&one, &request(&name)), attempt(&other, &request(&name))];
        waiting_for_rows(&server, 2).await;
        run(&mut operator, "ROLLBACK".into()).await;
        let mut granted = 0;
        for attempt in attempts {
            granted += usize::from(attempt.await.unwrap().granted().is_some());
        }
        assert_eq!(granted, 1, "{level}, {strategy}");
        seen += counted(&server, "Innodb_deadlocks").await - before;
        no_transaction_is_open(&server).await;
    }
    assert!(seen > 0, "the fault did not happen");
}

/// The server's own time limit of a wait for a row is an error that is repeated, too.
#[tokio::test]
async fn a_wait_that_the_server_ends_is_repeated_and_not_shown() {
    let server = start().await;
    server.sql("SET GLOBAL innodb_lock_wait_timeout = 1").await.unwrap();
    for strategy in BOTH {
        made(&server, strategy).await;
        // The sessions of a user's pool have the server's settings.
        let (store, _) = single(server.address(), strategy, 5 * SECOND).await;
        used_once(&store, &request("job")).await;
        let mut operator = session(&server).await;
        lock_row(&mut operator, strategy, "job").await;
        // It waits, is sent away, and waits again.
        let before = counted(&server, "Innodb_row_lock_waits").await;
        let waiting = attempt(&store, &request("job"));
        until("the next try", WAIT, async || {
            Ok((counted(&server, "Innodb_row_lock_waits").await > before + 1).then_some(()))
        })
        .await
        .unwrap();
        run(&mut operator, "COMMIT".into()).await;
        assert!(waiting.await.unwrap().granted().is_some(), "{strategy}");
    }
}

/// A statement that hangs occupies no connection of the pool for as long as it hangs.
#[tokio::test]
async fn a_statement_that_is_given_up_takes_its_connection_along() {
    let server = start().await;
    for strategy in BOTH {
        made(&server, strategy).await;
        let (store, _) = single(server.address(), strategy, 2 * SECOND).await;
        let mut operator = session(&server).await;
        lock_row(&mut operator, strategy, "warm").await;
        let hanging = request("warm");
        let error = store.try_acquire(&hanging).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        waiting_for_rows(&server, 1).await;
        granted(&store, &request("other")).await;
        waiting_for_rows(&server, 1).await;
        run(&mut operator, "COMMIT".into()).await;
        store.abandon(&hanging).await.unwrap();
        no_transaction_is_open(&server).await;
    }
}
