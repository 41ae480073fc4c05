//! PostgreSQL, on real servers, beyond what the suite asks of every store.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used)]

mod support;

use std::{sync::Arc, time::Duration};

use backend_sql::{
    Strategy,
    postgres::{PostgresBuilder, PostgresFence, connect, schema},
};
use conformance_tests::kit::{
    ClientCertificates, Clock, Data, Postgres, PostgresOptions, Server as _,
};
use lock_core::{
    Attempt, Backend, Blocked, Env as _, ErrorKind, FencingToken, Grant, Init, LockClient,
    LossReason, Outcome, Release, Renewal, Request, SystemEnv,
};
use sqlx::{Connection as _, Executor as _, PgPool};

use self::support::{BOTH, SECOND, count, granted, url};

const LEASE: Duration = Duration::from_secs(20);

fn request(name: &str) -> Request {
    support::request(name, LEASE)
}

/// A client's store; each strategy has tables of its own.
async fn open(server: &Postgres, strategy: Strategy) -> Arc<dyn Backend> {
    let prefix = strategy.to_string().replace('-', "_");
    connect(&format!("{}?strategy={strategy}&table_prefix={prefix}", url(server))).await.unwrap()
}

async fn made(server: &Postgres, strategy: Strategy) -> Arc<dyn Backend> {
    let store = open(server, strategy).await;
    store.init(&Init::default()).await.unwrap();
    store
}

async fn start() -> Postgres {
    Postgres::start(PostgresOptions::new()).await.unwrap()
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
        let released = theirs.release(&stranger, Release::default()).await.unwrap();
        assert_eq!(released.outcome, Outcome::NotHeld);
        let released = ours.release(&grant, Release::default()).await.unwrap();
        assert_eq!(released.outcome, Outcome::Released);

        let next = granted(&theirs, &request("job")).await;
        assert!(next.token > ahead);
        let answers = ours.renew(&[&grant], SystemEnv.now()).await;
        assert!(matches!(answers[..], [Renewal::Lost(LossReason::TakenOver)]), "{answers:?}");
        assert_eq!(ours.list(None).await.unwrap().locks.len(), 1);
        assert_eq!(ours.force_release(&next.name).await.unwrap(), Outcome::Released);
        assert_eq!(ours.force_release(&next.name).await.unwrap(), Outcome::NotHeld);

        // The ghost: an attempt that was given up, carried out late.
        let ghost = request("ghost");
        ours.abandon(&ghost).await.unwrap();
        assert!(ours.try_acquire(&ghost).await.unwrap().granted().is_none());
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
    assert!(error.to_string().contains("`init`"), "{error}");
    // The printed schema does as well, and twice does no harm.
    for _ in 0..2 {
        server.sql(&schema(&url(&server)).unwrap()).await.unwrap();
    }
    granted(&store, &request("job")).await;
    let error = connect(&format!("{}?longest_lease=1m", url(&server))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

/// A crash empties the locks: nothing is granted until every lease that may have been lost is over.
#[tokio::test]
async fn a_crash_is_followed_by_a_quarantine_and_a_clean_restart_is_not() {
    let mut server = start().await;
    for strategy in BOTH {
        let store = open(&server, strategy).await;
        let init = Init { longest_lease: Some(5 * SECOND), ..Init::default() };
        assert_eq!(store.init(&init).await.unwrap().grants_in, Duration::ZERO);
        let mut lost = request("job");
        lost.lease = 5 * SECOND;
        let before = granted(&store, &lost).await;

        server.restart_cleanly().await.unwrap();
        let store = open(&server, strategy).await;
        let Attempt::Busy(_) = store.try_acquire(&request("job")).await.unwrap() else {
            panic!("a clean restart has lost the lock");
        };

        let crashed = SystemEnv.now();
        server.restart(Data::Keep).await.unwrap();
        let store = open(&server, strategy).await;
        let rows = format!("SELECT count(*) FROM {strategy}_locks").replace('-', "_");
        assert_eq!(server.sql(&rows).await.unwrap(), "0", "the fault did not happen");
        let held_back = match store.try_acquire(&request("job")).await.unwrap() {
            Attempt::Quarantined(held_back) => held_back,
            other => panic!("not held back: {other:?}"),
        };
        assert!(held_back.remaining > SECOND && held_back.remaining <= 5 * SECOND);
        let client = LockClient::new(Arc::clone(&store));
        let error = client.lock("job").lease(SECOND).wait(SECOND).acquire().await.unwrap_err();
        assert!(matches!(error.blocked(), Some(Blocked::Quarantined(_))), "{error:?}");
        let guard = client.lock("job").lease(SECOND).acquire().await.unwrap();
        assert!(SystemEnv.now().since(crashed) >= 5 * SECOND);
        assert!(guard.token() > before.token);
        guard.release().await.unwrap();
    }
}

/// One session killed empties the tables while the postmaster goes on.
#[tokio::test]
async fn a_killed_session_is_noticed_and_an_operator_may_open_at_once() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    granted(&store, &request("job")).await;
    let pool = PgPool::connect(&url(&server)).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&pool).await.unwrap();
    server.kill_backend(u32::try_from(pid).unwrap()).await.unwrap();
    // The old connections are broken; the next ones find what is left.
    let store = open(&server, Strategy::PrimaryKey).await;
    let Attempt::Quarantined(_) = store.try_acquire(&request("other")).await.unwrap() else {
        panic!("granted after a loss");
    };
    let init = Init { first_use: true, ..Init::default() };
    assert_eq!(store.init(&init).await.unwrap().grants_in, Duration::ZERO);
    granted(&store, &request("other")).await;
}

#[tokio::test]
async fn a_promoted_replica_grants_nothing_until_the_old_leases_are_over() {
    let mut server = start().await;
    let store = open(&server, Strategy::PrimaryKey).await;
    let init = Init { longest_lease: Some(2 * SECOND), ..Init::default() };
    store.init(&init).await.unwrap();
    let mut wanted = request("job");
    wanted.lease = 2 * SECOND;
    let before = granted(&store, &wanted).await;
    let replica = server.replica().await.unwrap();
    server.kill().unwrap();
    replica.promote().await.unwrap();
    let store = open(&replica, Strategy::PrimaryKey).await;
    let Attempt::Quarantined(_) = store.try_acquire(&request("job")).await.unwrap() else {
        panic!("granted after a promotion");
    };
    let client = LockClient::new(store);
    let guard = client.lock("job").lease(SECOND).acquire().await.unwrap();
    assert!(guard.token() > before.token);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn tokens_rise_over_a_clock_that_is_set_back() {
    let clock = Clock::new().await.unwrap();
    let server = Postgres::start(PostgresOptions::new().clock(&clock)).await.unwrap();
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let first = granted(&store, &request("job")).await;
        store.release(&first, Release::default()).await.unwrap();
        clock.step(-3600.0).unwrap();
        let second = granted(&store, &request("job")).await;
        assert!(second.token > first.token, "{strategy}");
        let ahead = store.clock_difference_micros().await.unwrap().unwrap();
        assert!(ahead < -1_800_000_000, "{ahead}");
        clock.step(3600.0).unwrap();
    }
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
    support::says(&server, refused, "t").await;
}

/// A user's own transaction locks our rows in the wrong order, and ours is the one that is rolled back.
#[tokio::test]
async fn a_deadlock_with_a_users_transaction_is_repeated_and_not_shown() {
    let server =
        Postgres::start(PostgresOptions::new().line("deadlock_timeout = 3s")).await.unwrap();
    let store = made(&server, Strategy::PrimaryKey).await;
    let grants = [granted(&store, &request("a")).await, granted(&store, &request("b")).await];
    let mut operator = sqlx::PgConnection::connect(&url(&server)).await.unwrap();
    operator.execute("SET deadlock_timeout = '1h'; BEGIN").await.unwrap();
    let lock = async |operator: &mut sqlx::PgConnection, name: &str| {
        let lock = sqlx::query("SELECT 1 FROM primary_key_locks WHERE name = $1 FOR UPDATE");
        lock.bind(name).execute(operator).await.unwrap();
    };
    lock(&mut operator, "b").await;
    let renewing =
        tokio::spawn(async move { store.renew(&[&grants[0], &grants[1]], SystemEnv.now()).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    support::says(&server, waits, "1").await;
    // Ends only when ours has been rolled back.
    lock(&mut operator, "a").await;
    operator.execute("COMMIT").await.unwrap();
    let answers = renewing.await.unwrap();
    assert!(
        matches!(answers[..], [Renewal::Renewed { .. }, Renewal::Renewed { .. }]),
        "{answers:?}"
    );
    let seen = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'";
    support::says(&server, seen, "1").await;
}

/// Names of tables are quoted; only the locks, and what betrays their loss, are not logged.
#[tokio::test]
async fn tables_are_named_as_they_are_told_and_what_guards_data_is_logged() {
    let server = start().await;
    for strategy in BOTH {
        let prefix = format!("User_{}", strategy.to_string().replace('-', "_"));
        let url = format!("{}?strategy={strategy}&table_prefix={prefix}", url(&server));
        server.sql(&schema(&url).unwrap()).await.unwrap();
        let store = connect(&url).await.unwrap();
        for _ in 0..2 {
            let grant = granted(&store, &request("job")).await;
            store.release(&grant, Release::default()).await.unwrap();
        }
        let kinds = format!(
            "SELECT string_agg(relname || ' ' || relpersistence::text, ', ' ORDER BY relname) \
             FROM pg_class WHERE relkind = 'r' AND relname LIKE '{prefix}%'"
        );
        let expected =
            format!("{prefix}_fence p, {prefix}_locks u, {prefix}_marker u, {prefix}_settings p");
        assert_eq!(server.sql(&kinds).await.unwrap(), expected);
    }
}

/// A commit that fails after the row was told is no grant.
#[tokio::test]
async fn a_grant_whose_commit_fails_is_none() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    server
        .sql(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'at commit'; END $$;
             CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON primary_key_locks
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()",
        )
        .await
        .unwrap();
    let answer = store.try_acquire(&request("job")).await;
    assert!(answer.is_err(), "{answer:?}");
    assert!(store.list(None).await.unwrap().locks.is_empty());
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
    let client = LockClient::new(store);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let guard = client.lock("account").acquire().await.unwrap();
        tokens.push(guard.token());
        guard.release().await.unwrap();
    }
    for (at, token) in [(1_i64, tokens[1]), (0, tokens[0]), (1, tokens[1])] {
        let mut transaction = pool.begin().await.unwrap();
        let insert = sqlx::query("INSERT INTO account VALUES ($1)").bind(at);
        insert.execute(&mut *transaction).await.unwrap();
        match fence.admit(&mut transaction, "account", token).await.unwrap() {
            Ok(()) => transaction.commit().await.unwrap(),
            Err(stale) => {
                assert_eq!((stale.offered, stale.admitted), (tokens[0], tokens[1]));
                transaction.rollback().await.unwrap();
            }
        }
    }
    let values: Vec<i64> =
        sqlx::query_scalar("SELECT value FROM account").fetch_all(&pool).await.unwrap();
    assert_eq!(values, [1, 1]);
}

/// A client of the other strategy may have swept a row away and made another, with the version that a
/// client remembers from the old one.
#[tokio::test]
async fn a_version_remembered_from_a_row_that_was_swept_away_takes_nothing_held() {
    let server = start().await;
    for (ours, theirs) in [(BOTH[1], BOTH[0]), (BOTH[0], BOTH[1])] {
        server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await.unwrap();
        let open = async |strategy| {
            connect(&format!("{}?strategy={strategy}", url(&server))).await.unwrap()
        };
        let remembering = open(ours).await;
        remembering.init(&Init::default()).await.unwrap();
        let other = open(theirs).await;
        let before = granted(&remembering, &request("job")).await;
        remembering.release(&before, Release::default()).await.unwrap();
        // As a sweep does, once the watermark is up.
        let version = "SELECT version FROM leasehold_locks";
        let left = server.sql(version).await.unwrap();
        server.sql("DELETE FROM leasehold_locks").await.unwrap();
        let held = granted(&other, &request("job")).await;
        server.sql(&format!("UPDATE leasehold_locks SET version = {left}")).await.unwrap();
        let Attempt::Busy(busy) = remembering.try_acquire(&request("job")).await.unwrap() else {
            panic!("granted twice");
        };
        assert_eq!(busy.token, held.token);
        // Free, and still the remembered version: by now it costs nothing but a look.
        other.release(&held, Release::default()).await.unwrap();
        assert!(granted(&remembering, &request("job")).await.token > held.token);
    }
}

/// What is swept away comes back with a larger token, and what somebody waits for or is kept away from
/// is not swept.
#[tokio::test]
async fn a_sweep_forgets_free_rows_and_no_token() {
    let server = start().await;
    let store = open(&server, Strategy::PrimaryKey).await;
    let longest = 600 * SECOND;
    let init = Init { longest_lease: Some(longest), ..Init::default() };
    store.init(&init).await.unwrap();
    let ahead = |grant: &Grant| FencingToken::new(grant.token.get() + 20_000_000).unwrap();
    let swept = granted(&store, &request("swept")).await;
    store.raise(&swept, ahead(&swept)).await.unwrap();
    store.release(&swept, Release::default()).await.unwrap();
    // For longer than this takes on any machine.
    let held = granted(&store, &support::request("held", longest)).await;
    let ghost = request("ghost");
    store.abandon(&ghost).await.unwrap();
    // Each sweep believes a watermark that is a minute old.
    let old = "UPDATE primary_key_marker SET raised = raised - interval '2 minutes'";
    for _ in 0..2 {
        for _ in 0..1_000 {
            let grant = granted(&store, &request("busy")).await;
            store.release(&grant, Release::default()).await.unwrap();
        }
        server.sql(old).await.unwrap();
    }
    for _ in 0..1_000 {
        let grant = granted(&store, &request("busy")).await;
        store.release(&grant, Release::default()).await.unwrap();
    }
    let names = "SELECT string_agg(name, ' ' ORDER BY name) FROM primary_key_locks";
    let names = server.sql(names).await.unwrap();
    assert!(!names.contains("swept") && names.contains("ghost held"), "{names}");
    assert!(store.try_acquire(&ghost).await.unwrap().granted().is_none());
    assert_eq!(store.list(None).await.unwrap().locks.len(), 1, "{held:?}");
    assert!(granted(&store, &request("swept")).await.token > ahead(&swept));
}

#[tokio::test]
async fn tls_is_used_and_a_wrong_certificate_refused() {
    let options = PostgresOptions::new().tls(ClientCertificates::NotAsked);
    let server = Postgres::start(options).await.unwrap();
    let files = server.certificates().unwrap();
    let to = |ca: &std::path::Path| {
        let mode = format!("sslmode=verify-full&sslrootcert={}", ca.display());
        let port = server.address().port();
        format!("postgres://postgres@localhost:{port}/postgres?{mode}&application_name=tls")
    };
    let store = connect(&to(&files.ca)).await.unwrap();
    store.init(&Init::default()).await.unwrap();
    granted(&store, &request("job")).await;
    assert!(store.guarantees().push);
    let plain = "SELECT count(*) FILTER (WHERE NOT ssl), count(*) > 1 \
        FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'tls'";
    assert_eq!(server.sql(plain).await.unwrap(), "0|t", "the connection for messages, too");
    // The server's own certificate is not its authority's.
    let error = connect(&to(&files.client_cert)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}
