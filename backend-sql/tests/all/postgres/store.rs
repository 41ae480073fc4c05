//! PostgreSQL, on real servers, beyond what the suite asks of every store.

use std::time::Duration;

use backend_sql::{
    Strategy,
    postgres::{connect, schema},
};
use conformance_tests::kit::{Postgres, PostgresOptions};
use lock_core::{
    Attempt, Env as _, ErrorKind, FencingToken, Grant, LockClient, LossReason, ReleaseOptions,
    ReleaseOutcome, Renewal, Request, SystemEnv,
};
use sqlx::{Connection as _, Executor as _};

use crate::support::postgres;
use crate::support::postgres::{
    BOTH, count, granted, made_apart as made, open_apart as open, start, url,
};

const LEASE: Duration = Duration::from_secs(20);

fn request(name: &str) -> Request {
    postgres::request(name, LEASE)
}

#[tokio::test]
async fn the_contract_step_by_step() {
    let server = start().await;
    for strategy in BOTH {
        let (ours, theirs) = (made(&server, strategy).await, open(&server, strategy).await);
        let mine = request("job");
        let grant = granted(&ours, &mine).await;
        assert_eq!(granted(&ours, &mine).await.token, grant.token, "a repeat is the same grant");
        let Attempt::Busy(busy) = theirs.try_acquire(&request("job")).await.unwrap() else {
            panic!("granted twice");
        };
        let holder = busy.holder.unwrap();
        assert_eq!((holder.owner, busy.token), (mine.owner, grant.token));
        assert!(holder.remaining > LEASE / 2 && holder.remaining <= LEASE);

        let answers = ours.renew(&[&grant], SystemEnv.now()).await;
        assert!(matches!(answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
        let ahead = FencingToken::new(grant.token.get() + 5_000_000).unwrap();
        ours.raise(&grant, ahead).await.unwrap();
        let stranger = Grant::new(&request("job"), grant.token);
        let released = theirs.release(&stranger, ReleaseOptions::default()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
        let released = ours.release(&grant, ReleaseOptions::default()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);

        let next = granted(&theirs, &request("job")).await;
        assert!(next.token > ahead);
        let answers = ours.renew(&[&grant], SystemEnv.now()).await;
        assert!(matches!(answers[..], [Renewal::Lost(LossReason::TakenOver)]), "{answers:?}");
        assert_eq!(ours.list(None).await.unwrap().locks.len(), 1);
        assert_eq!(ours.force_release(&next.name).await.unwrap(), ReleaseOutcome::Released);
        assert_eq!(ours.force_release(&next.name).await.unwrap(), ReleaseOutcome::NotHeld);

        // The late request: an attempt that was given up, carried out late.
        let late = request("late");
        ours.abandon(&late).await.unwrap();
        assert!(ours.try_acquire(&late).await.unwrap().granted().is_none());
        let held = request("held");
        granted(&ours, &held).await;
        ours.abandon(&held).await.unwrap();
        granted(&theirs, &request("held")).await;
    }
}

#[tokio::test]
async fn a_batch_is_renewed_in_its_order_whatever_the_names() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    let mut grants = Vec::new();
    for on in ["a\"b\\c", "'; DROP TABLE primary_key_locks; --", "schloß 🔒", "A", "a", "{now}$1"]
    {
        grants.push(granted(&store, &request(on)).await);
    }
    store.force_release(&grants[3].name).await.unwrap();
    let borrowed: Vec<_> = grants.iter().collect();
    let answers = store.renew(&borrowed, SystemEnv.now()).await;
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(matches!(answer, Renewal::Lost(LossReason::Gone)), at == 3, "{answer:?}");
    }
}

#[tokio::test]
async fn a_store_without_tables_says_how_to_make_them() {
    let server = start().await;
    let store = connect(&url(&server)).await.unwrap();
    let error = store.try_acquire(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("`leasehold init`"), "{error}");
    // The printed schema does as well, and twice does no harm.
    for _ in 0..2 {
        server.sql(&schema(&url(&server)).unwrap()).await.unwrap();
    }
    granted(&store, &request("job")).await;
    let error = connect(&format!("{}?longest_lease=1m", url(&server))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

/// Whatever the sessions' settings: conflicts are repeated inside, and the time zone says nothing.
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
            let to = format!("{url}?strategy={strategy}&table_prefix={prefix}&prepare={prepare}");
            let mut clients = Vec::new();
            for _ in 0..4 {
                clients.push(LockClient::new(connect(&to).await.unwrap()));
            }
            count(clients, 10).await;
        }
    }
    // What a server refuses so is rolled back.
    let refused = "SELECT xact_rollback > 0 FROM pg_stat_database WHERE datname = 'postgres'";
    postgres::says(&server, refused, "t").await;
}

/// A user's own transaction locks our rows in the wrong order. A renewal that waits for one of them holds no
/// other, so that this is no deadlock: one would last as long as the test has patience.
#[tokio::test]
async fn a_users_transaction_that_locks_in_another_order_is_no_deadlock() {
    let server =
        Postgres::start(PostgresOptions::new().line("deadlock_timeout = 1h")).await.unwrap();
    let store = made(&server, Strategy::PrimaryKey).await;
    let request = |name| postgres::request(name, Duration::from_secs(30));
    let grants = [granted(&store, &request("a")).await, granted(&store, &request("b")).await];
    let mut operator = sqlx::PgConnection::connect(&url(&server)).await.unwrap();
    operator.execute("BEGIN").await.unwrap();
    let lock = async |operator: &mut sqlx::PgConnection, name: &str| {
        let lock = sqlx::query("SELECT 1 FROM primary_key_locks WHERE name = $1 FOR UPDATE");
        let locked = tokio::time::timeout(postgres::WAIT, lock.bind(name).execute(operator)).await;
        locked.unwrap().unwrap();
    };
    lock(&mut operator, "b").await;
    let renewing =
        tokio::spawn(async move { store.renew(&[&grants[0], &grants[1]], SystemEnv.now()).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    postgres::says(&server, waits, "1").await;
    lock(&mut operator, "a").await;
    operator.execute("COMMIT").await.unwrap();
    let answers = renewing.await.unwrap();
    assert!(
        matches!(answers[..], [Renewal::Renewed { .. }, Renewal::Renewed { .. }]),
        "{answers:?}"
    );
}
