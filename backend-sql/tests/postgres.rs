//! PostgreSQL, on real servers, beyond what the suite asks of every store.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used)]

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
    LockName, LossReason, Outcome, OwnerId, OwnerLabel, Release, Renewal, Request, SystemEnv,
};
use sqlx::PgPool;

const BOTH: [Strategy; 2] = [Strategy::PrimaryKey, Strategy::Optimistic];
const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(20);

fn url(server: &Postgres) -> String {
    format!("postgres://postgres@{}/postgres", server.address())
}

fn request(name: &str) -> Request {
    Request::new(
        LockName::new(name).unwrap(),
        OwnerId::from_bits(SystemEnv.random()),
        OwnerLabel::new("test").unwrap(),
        LEASE,
        SystemEnv.now(),
    )
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

async fn granted(store: &Arc<dyn Backend>, request: &Request) -> Grant {
    match store.try_acquire(request).await.unwrap() {
        Attempt::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
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
async fn many_clients_count_without_losing_one_also_under_serializable() {
    let options = PostgresOptions::new()
        .line("default_transaction_isolation = 'serializable'")
        .line("timezone = 'Pacific/Kiritimati'");
    let server = Postgres::start(options).await.unwrap();
    for strategy in BOTH {
        made(&server, strategy).await;
        let folder = tempfile::tempdir().unwrap();
        let counter = folder.path().join("counter");
        std::fs::write(&counter, "0").unwrap();
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let client = LockClient::new(open(&server, strategy).await);
            for _ in 0..2 {
                let (client, counter) = (client.clone(), counter.clone());
                tasks.push(tokio::spawn(async move {
                    for _ in 0..10 {
                        let guard = client.lock("counter").acquire().await.unwrap();
                        let value: u64 =
                            std::fs::read_to_string(&counter).unwrap().parse().unwrap();
                        std::fs::write(&counter, (value + 1).to_string()).unwrap();
                        guard.release().await.unwrap();
                    }
                }));
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(std::fs::read_to_string(&counter).unwrap(), "80", "{strategy}");
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
    let store = made(&server, Strategy::PrimaryKey).await;
    let ahead = |grant: &Grant| FencingToken::new(grant.token.get() + 20_000_000).unwrap();
    let swept = granted(&store, &request("swept")).await;
    store.raise(&swept, ahead(&swept)).await.unwrap();
    store.release(&swept, Release::default()).await.unwrap();
    let held = granted(&store, &request("held")).await;
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
