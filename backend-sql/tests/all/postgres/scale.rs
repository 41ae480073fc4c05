//! Many waiting clients, few sessions, large tables.

use std::sync::{Arc, Mutex};

use backend_sql::{
    Strategy,
    postgres::{PostgresBuilder, connect},
};
use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, ClientOptions, Env as _, Grant, LockClient, OwnerLabel, ReleaseOptions,
    Renewal, SystemEnv,
};
use servers::{Clock, Postgres, PostgresOptions, wait::until};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, postgres::PgPoolOptions};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    checks,
    postgres::{
        BLOCKED, LEASE, SECOND, WAIT, WAITING, assert_renewed, granted, made, open, request, says,
        start, url,
    },
};

/// The waiters, in the order of the server's queue.
const ORDER: &str = "SELECT string_agg(label, ' ' ORDER BY near, at) FROM ( \
     SELECT 0 AS near, at, substr(entry, 66) AS label FROM leasehold_locks, unnest(waiters) WITH ORDINALITY AS w (entry, at) \
     UNION ALL \
     SELECT 1, entered, substr(entry, 66) FROM leasehold_queue AS p JOIN leasehold_locks AS l ON l.name = p.name \
     WHERE p.entered > coalesce(l.moved, 0)) AS q";

/// Renews until then. Returns how long a renewal took: the median and the 99th percentile.
async fn renewals(store: &Arc<dyn Backend>, held: &Grant, until: Instant) -> String {
    let mut took = Vec::new();
    loop {
        let sent = Instant::now();
        let answers = store.renew(&[held], SystemEnv.now()).await;
        took.push(sent.elapsed());
        assert!(matches!(answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
        if Instant::now() >= until {
            break;
        }
        sleep(SECOND / 100).await;
    }
    took.sort();
    format!("{:?} ({:?})", took[took.len() / 2], took[took.len() * 99 / 100])
}

/// Many clients wait, at the head and in the tail of the queue. None loses its entry, no heartbeat
/// writes the lock's row, and they are served in order, after longer than an entry lives without a
/// heartbeat. In the soak these are a thousand.
///
/// The server's clock stands still but for steps, after each of which every entry has sent a
/// heartbeat. So no entry ends because this machine is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiting_clients_keep_their_entries() {
    // Less than an entry of the head lives, and steps for longer than any entry lives.
    const STEP: f64 = 2.0;
    let (many, steps) = match std::env::var_os("LEASEHOLD_SOAK") {
        Some(many) => (many.to_str().and_then(|many| many.parse().ok()).unwrap_or(1_000), 12),
        None => (60, 4),
    };
    let clock = Clock::new().await.unwrap();
    let options = PostgresOptions::new().line("max_connections = 500").clock(&clock);
    let server = Postgres::start(options).await.unwrap();
    clock.stop().unwrap();
    // Nobody renews it while they enter.
    let lease = SECOND * 3600;
    let holder = made(&server, Strategy::PrimaryKey, lease).await;
    let held = granted(&holder, &request("job", lease)).await;
    let alone = renewals(&holder, &held, Instant::now() + SECOND).await;
    // One process, which shares its connections and checks: a thousand sessions would be another
    // test.
    let pool = PgPoolOptions::new().max_connections(20).test_before_acquire(false);
    let pool = pool.acquire_timeout(WAIT).connect(&url(&server)).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..many {
        let builder = PostgresBuilder::with_pool(pool.clone()).listen(false).prepare(true);
        let mut options = ClientOptions::default();
        options.label = OwnerLabel::new(number.to_string()).unwrap();
        let store = builder.timeout(WAIT).build().await.unwrap();
        let client = LockClient::with_options(store, options).unwrap();
        let order = Arc::clone(&order);
        waiters.push(tokio::spawn(async move {
            let guard = client.lock("job").lease(LEASE).acquire().await.unwrap();
            order.lock().unwrap().push(number.to_string());
            guard.release().await.unwrap();
        }));
    }
    says(&server, WAITING, &many.to_string()).await;
    let entered = server.sql(ORDER).await.unwrap();
    let row = "SELECT ctid::text || ' ' || xmin::text FROM leasehold_locks";
    let hot = "SELECT n_tup_upd - n_tup_hot_upd < n_tup_upd / 10 FROM pg_stat_user_tables \
               WHERE relname = 'leasehold_queue'";
    let before = server.sql(row).await.unwrap();
    let all = many.to_string();
    // An entry at the head has a row with its first heartbeat.
    says(&server, "SELECT count(*) FROM leasehold_queue", &all).await;
    for _ in 0..steps {
        let mark = "DROP TABLE IF EXISTS heard; CREATE TABLE heard AS SELECT owner, alive FROM leasehold_queue";
        server.sql(mark).await.unwrap();
        clock.step(STEP).unwrap();
        let later = "SELECT count(*) FROM leasehold_queue AS q JOIN heard AS h ON h.owner = q.owner \
             WHERE q.alive <> h.alive";
        says(&server, later, &all).await;
    }
    assert_eq!(server.sql(row).await.unwrap(), before, "the row was written");
    let crowded = renewals(&holder, &held, Instant::now() + SECOND).await;
    println!("{many} wait: a renewal took {crowded}, and {alone} when nobody waited");
    println!("heartbeats in their page: {}", server.sql(hot).await.unwrap());
    assert_eq!(server.sql(ORDER).await.unwrap(), entered);
    holder.release(&held, ReleaseOptions::default()).await.unwrap();
    for waiter in waiters {
        timeout(WAIT * 10, waiter).await.unwrap().unwrap();
    }
    assert_eq!(order.lock().unwrap().join(" "), entered);
}

/// How many sessions a client with this name has.
fn sessions(name: &str) -> String {
    format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'")
}

#[tokio::test]
async fn a_client_that_waits_needs_two_sessions_and_another_one() {
    let server = start().await;
    let holder = made(&server, Strategy::PrimaryKey, LEASE).await;
    let named = |name: &str| format!("{}?application_name={name}", url(&server));
    let busy = LockClient::new(connect(&named("busy")).await.unwrap());
    let locks = join_all((0..20).map(|at| busy.lock(format!("name {at}")).acquire())).await;
    assert_ne!(server.sql(&sessions("busy")).await.unwrap(), "0");
    let held = granted(&holder, &request("job", LEASE)).await;
    let client = LockClient::new(connect(&named("waits")).await.unwrap());
    let waiter = tokio::spawn(client.lock("job").acquire());
    says(&server, WAITING, "1").await;
    says(&server, &sessions("waits"), "2").await;
    // It renews what it holds.
    let one = format!("SELECT ({}) <= 1", sessions("busy"));
    says(&server, &one, "t").await;
    assert!(locks.iter().all(|guard| guard.as_ref().unwrap().is_valid()));
    holder.release(&held, ReleaseOptions::default()).await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    says(&server, &format!("SELECT ({}) <= 1", sessions("waits")), "t").await;
    assert!(client.guarantees().push, "it listens again when it waits");
}

/// Between two renewals, or between two jobs.
#[tokio::test]
async fn a_client_that_does_nothing_keeps_one_session() {
    let server = start().await;
    drop(made(&server, Strategy::PrimaryKey, LEASE).await);
    let idle = format!("{}?application_name=idle&listen=off", url(&server));
    let client = LockClient::new(connect(&idle).await.unwrap());
    drop(join_all((0..20).map(|at| client.lock(format!("name {at}")).acquire())).await);
    says(&server, &sessions("idle"), "1").await;
    let session = "SELECT pid FROM pg_stat_activity WHERE application_name = 'idle'";
    let before = server.sql(session).await.unwrap();
    sleep(SECOND * 4).await;
    assert_eq!(server.sql(session).await.unwrap(), before);
}

#[tokio::test]
async fn a_check_that_nobody_awaits_keeps_its_session() {
    let server = start().await;
    made(&server, Strategy::PrimaryKey, LEASE).await.close().await;
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let checks = format!("{}?application_name=checks", url(&server));
    let pool = pool.connect(&checks).await.unwrap();
    let ours =
        "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE application_name = 'checks'";
    let lock = async || {
        let mut other = PgConnection::connect(&url(&server)).await.unwrap();
        other.execute("BEGIN; LOCK TABLE leasehold_locks").await.unwrap();
        other
    };
    checks::a_check_that_nobody_awaits_keeps_its_session(
        PostgresBuilder::with_pool(pool).listen(false).build().await.unwrap(),
        async || server.sql(ours).await.unwrap(),
        lock,
        async || says(&server, BLOCKED, "1").await,
        async |other| other.close().await.unwrap(),
    )
    .await;
}

/// A client for each, by its URL, on a server as it comes. All hold a lock, and a quarter of them
/// wait for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_fit_a_server_with_a_hundred_sessions() {
    let options = PostgresOptions::new().line("max_connections = 100");
    let server = Postgres::start(options).await.unwrap();
    let store = connect(&url(&server)).await.unwrap();
    store.init(&lock_core::Init::default()).await.unwrap();
    store.close().await;
    let (mut clients, mut guards) = (Vec::new(), Vec::new());
    for at in 0..64 {
        let mut options = ClientOptions::default();
        options.call_timeout = WAIT;
        let store = connect(&format!("{}?timeout=30s", url(&server))).await.unwrap();
        let client = LockClient::with_options(store, options).unwrap();
        guards.push(client.lock(format!("name {at}")).lease(LEASE).acquire().await.unwrap());
        clients.push(client);
    }
    let turns = clients.iter().step_by(4).map(|client| async {
        let guard = client.lock("job").lease(LEASE).acquire().await.unwrap();
        guard.release().await.unwrap();
    });
    timeout(WAIT * 2, join_all(turns)).await.unwrap();
    assert!(guards.iter().all(lock_core::Guard::is_valid));
    // Between turns they give sessions back.
    let some = "SELECT count(*) BETWEEN 64 AND 97 FROM pg_stat_activity WHERE datid IS NOT NULL";
    says(&server, some, "t").await;
}

#[tokio::test]
async fn a_server_without_a_session_left_says_what_helps() {
    let options = PostgresOptions::new().line("max_connections = 12");
    let server = Postgres::start(options).await.unwrap();
    let store = connect(&format!("{}?listen=off", url(&server))).await.unwrap();
    store.init(&lock_core::Init::default()).await.unwrap();
    let mut others = Vec::new();
    while let Ok(other) = PgConnection::connect(&url(&server)).await {
        others.push(other);
    }
    // By the one session that a client keeps.
    let warnings = store.warnings().await.unwrap();
    assert!(warnings.iter().any(|text| text.contains("of 12 sessions left")), "{warnings:?}");
    let late = connect(&format!("{}?listen=off&timeout=500ms", url(&server))).await;
    let error = match late {
        Ok(late) => late.try_acquire(&request("job", LEASE)).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("max_connections"), "{error}");
    drop(others);
}

/// A statement that a client gave up does not keep its session until the transaction that blocks it
/// ends.
#[tokio::test]
async fn attempts_on_a_locked_row_leave_no_sessions_behind() {
    let server = start().await;
    for options in ["", "&prepare=off"] {
        let name = format!("tries{}", options.len());
        let to = format!("{}?timeout=300ms&application_name={name}{options}", url(&server));
        made(&server, Strategy::PrimaryKey, LEASE).await.close().await;
        // A busy machine may miss the limit.
        let connects = async || Ok(connect(&to).await.ok());
        let store = until("a client", WAIT, connects).await.unwrap();
        let granted_soon = async |name| {
            let wanted = request(name, LEASE);
            let grants =
                async || Ok(store.try_acquire(&wanted).await.ok().and_then(Attempt::granted));
            until("a grant", WAIT, grants).await.unwrap()
        };
        granted_soon("job").await;
        let mut foreign = PgConnection::connect(&url(&server)).await.unwrap();
        foreign.execute("BEGIN; UPDATE leasehold_locks SET owner = NULL").await.unwrap();
        for _ in 0..8 {
            let wanted = [0; 3].map(|_| request("job", LEASE));
            let attempts = wanted.iter().map(|wanted| store.abandon(wanted));
            for answer in join_all(attempts).await {
                answer.unwrap_err();
            }
        }
        let left: u64 = server.sql(&sessions(&name)).await.unwrap().parse().unwrap();
        assert!(left <= 7, "{options}: {left} sessions");
        says(&server, BLOCKED, "0").await;
        foreign.execute("ROLLBACK").await.unwrap();
        granted_soon("other").await;
    }
}

/// Statements are planned while the table is small, also by its last analysis; then it grows. A
/// user's pool is not changed, so it shows that the table would be scanned.
#[tokio::test]
async fn a_table_that_grew_is_not_scanned() {
    const TURNS: u64 = 40;
    let server = start().await;
    for own in [true, false] {
        let init = made(&server, Strategy::PrimaryKey, LEASE).await;
        let off = "ALTER TABLE leasehold_locks SET (autovacuum_enabled = off)";
        server.sql(off).await.unwrap();
        let store = match own {
            true => open(&server, Strategy::PrimaryKey).await,
            false => {
                let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
                let pool = pool.acquire_timeout(WAIT).connect(&url(&server)).await.unwrap();
                PostgresBuilder::with_pool(pool).build().await.unwrap()
            }
        };
        let turn = async || {
            let grant = granted(&store, &request("job", LEASE)).await;
            assert_renewed(&store, &grant).await;
            let (_, waiter) = crate::support::postgres::enqueue(&store, "job").await;
            waiter.leave().await.unwrap();
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
        };
        turn().await;
        server.sql("ANALYZE leasehold_locks; ANALYZE leasehold_queue").await.unwrap();
        // A plan that serves all arguments is made at the sixth time.
        for _ in 0..TURNS {
            turn().await;
        }
        let rows = "INSERT INTO leasehold_locks (name, token, version, expires, kept) \
            SELECT 'name ' || i, 1, 1, now() + interval '1 hour', false FROM generate_series(1, 20000) AS i";
        server.sql(rows).await.unwrap();
        let scans = async || {
            let sql = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'leasehold_locks'";
            server.sql(sql).await.unwrap().parse::<u64>().unwrap()
        };
        // A session reports its scans with its next transaction after a second.
        sleep(SECOND * 2).await;
        turn().await;
        sleep(SECOND * 2).await;
        let before = scans().await;
        for _ in 0..TURNS {
            turn().await;
        }
        sleep(SECOND * 2).await;
        turn().await;
        init.close().await;
        let scanned = scans().await - before;
        println!("own pool: {own}; {scanned} scans in {TURNS} turns");
        assert_eq!(scanned < TURNS / 2, own, "own pool: {own}; {scanned} scans in {TURNS} turns");
    }
}

/// A dump has such a snapshot, or a session that is idle in its transaction.
#[tokio::test]
async fn check_warns_of_an_old_snapshot() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey, LEASE).await;
    assert!(store.warnings().await.unwrap().is_empty());
    let mut dump = PgConnection::connect(&url(&server)).await.unwrap();
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM leasehold_locks";
    sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut dump).await.unwrap();
    let told = async || {
        let warnings = store.warnings().await.unwrap();
        warnings.iter().any(|text| text.contains("a database of their own"))
    };
    crate::support::postgres::is_so("a warning", told).await;
    dump.execute("ROLLBACK").await.unwrap();
    crate::support::postgres::is_so("no warning", async || !told().await).await;
}
