//! SQLite, beyond what the suite asks of every store.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant as Started},
};

use backend_sql::{
    Strategy,
    sqlite::{SqliteBuilder, SqliteFence, connect},
};
use common::{BOTH, count, request_for};
use lock_core::{
    Attempt, Backend, Env as _, ErrorKind, FencingToken, Init, LockClient, LockName, Release,
    Request, SystemEnv, TryAcquire,
};
use sqlx::{
    Connection as _, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

const LEASE: Duration = Duration::from_secs(10);

fn request(name: &str) -> Request {
    request_for(name, LEASE)
}

async fn open(path: &Path, strategy: Strategy) -> Arc<dyn Backend> {
    SqliteBuilder::new(path).strategy(strategy).build().await.unwrap()
}

async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path)).await.unwrap()
}

#[tokio::test]
async fn two_clients_of_one_file_exclude_each_other_whatever_their_strategies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let mut last = FencingToken::ZERO;
    for (ours, theirs) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
        let (ours, theirs) = (open(&path, BOTH[ours]).await, open(&path, BOTH[theirs]).await);
        let mine = request("job");
        let grant = ours.try_acquire(&mine).await.unwrap().granted().unwrap();
        assert!(grant.token > last);
        let Attempt::Busy(busy) = theirs.try_acquire(&request("job")).await.unwrap() else {
            panic!("granted twice");
        };
        assert_eq!(busy.token, grant.token);
        assert_eq!(busy.holder.unwrap().owner, mine.owner);
        let again = ours.try_acquire(&mine).await.unwrap().granted().unwrap();
        assert_eq!(again.token, grant.token, "a repeat is the same grant");
        ours.release(&grant, Release::default()).await.unwrap();
        last = grant.token;
    }
}

#[tokio::test]
async fn a_version_remembered_from_a_row_that_was_swept_away_takes_nothing_held() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (remembering, other) = (open(&path, BOTH[1]).await, open(&path, BOTH[0]).await);
    let before = remembering.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    remembering.release(&before, Release::default()).await.unwrap();
    let version = "SELECT version FROM leasehold_locks";
    let file = &mut raw(&path).await;
    let left: i64 = sqlx::query_scalar(version).fetch_one(&mut *file).await.unwrap();
    // As a sweep of the other client does, once the watermark is up.
    let sweep = "DELETE FROM leasehold_locks";
    sqlx::query(sweep).execute(&mut *file).await.unwrap();
    let held = other.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    loop {
        let now: i64 = sqlx::query_scalar(version).fetch_one(&mut *file).await.unwrap();
        assert!(now <= left, "the versions have not met");
        if now == left {
            break;
        }
        other.renew(&[&held], SystemEnv.now()).await;
    }
    let Attempt::Busy(busy) = remembering.try_acquire(&request("job")).await.unwrap() else {
        panic!("granted twice");
    };
    assert_eq!(busy.token, held.token);
}

#[tokio::test]
async fn connecting_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = open(&path, Strategy::PrimaryKey).await;
    let name = LockName::new("job").unwrap();
    assert_eq!(store.inspect(&name).await.unwrap(), None);
    assert!(store.list(None).await.unwrap().locks.is_empty());
    assert!(!path.exists());
    store.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    assert!(path.exists());
}

#[tokio::test]
async fn a_row_of_another_boot_is_held_for_its_lease_from_when_it_is_first_seen() {
    for strategy in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let store = open(&path, strategy).await;
        let mut theirs = request("job");
        theirs.lease = Duration::from_millis(400);
        let grant = store.try_acquire(&theirs).await.unwrap().granted().unwrap();
        // As after a reboot: the times say nothing any more.
        let sql = "UPDATE leasehold_locks SET epoch = 'another boot', expires = 1";
        sqlx::query(sql).execute(&mut raw(&path).await).await.unwrap();

        let started = Started::now();
        let client = LockClient::new(Arc::clone(&store));
        assert!(matches!(client.lock("job").try_acquire().await.unwrap(), TryAcquire::Busy(_)));
        let guard = client.lock("job").acquire().await.unwrap();
        assert!(started.elapsed() >= theirs.lease, "{strategy}: {:?}", started.elapsed());
        assert!(guard.token() > grant.token);
        // Its old owner, should it come back after all.
        assert!(matches!(
            store.renew(&[&grant], SystemEnv.now()).await[..],
            [lock_core::Renewal::Lost(lock_core::LossReason::TakenOver)]
        ));
    }
}

/// A late renewal with a shorter lease, or a late repeat, leaves a lease as long as it is. Other clocks count
/// by its length.
#[tokio::test]
async fn a_lease_that_stays_long_stays_long_by_other_clocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = open(&path, Strategy::PrimaryKey).await;
    let mut mine = request("job");
    let mut grant = store.try_acquire(&mine).await.unwrap().granted().unwrap();
    let short = Duration::from_millis(100);
    (mine.lease, grant.lease) = (short, short);
    for repeat in [true, false] {
        if repeat {
            store.try_acquire(&mine).await.unwrap().granted().unwrap();
        } else {
            store.renew(&[&grant], SystemEnv.now()).await;
        }
        let file = &mut raw(&path).await;
        let epoch = "SELECT epoch FROM leasehold_locks";
        let ours: String = sqlx::query_scalar(epoch).fetch_one(&mut *file).await.unwrap();
        let set = "UPDATE leasehold_locks SET epoch = $1";
        sqlx::query(set).bind("theirs").execute(&mut *file).await.unwrap();
        let Attempt::Busy(busy) = store.try_acquire(&request("job")).await.unwrap() else {
            panic!("granted twice");
        };
        // Less the time that this has taken.
        assert!(busy.holder.unwrap().remaining > LEASE / 4, "repeat: {repeat}");
        sqlx::query(set).bind(ours).execute(&mut *file).await.unwrap();
    }
}

/// A file of before there was the table of sightings.
#[tokio::test]
async fn a_file_without_the_youngest_table_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let before = open(&path, Strategy::PrimaryKey).await;
    let grant = before.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    before.close().await;
    sqlx::query("DROP TABLE leasehold_seen").execute(&mut raw(&path).await).await.unwrap();
    let store = open(&path, Strategy::PrimaryKey).await;
    assert_eq!(store.inspect(&grant.name).await.unwrap().unwrap().token, grant.token);
    store.release(&grant, Release::default()).await.unwrap();
    assert!(
        store.try_acquire(&request("job")).await.unwrap().granted().unwrap().token > grant.token
    );
}

#[tokio::test]
async fn an_abandoned_owner_takes_nothing_any_more() {
    for strategy in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("locks.db"), strategy).await;
        let (held, never) = (request("held"), request("never"));
        store.try_acquire(&held).await.unwrap().granted().unwrap();
        for request in [&held, &never] {
            store.abandon(request).await.unwrap();
            // The ghost: the same attempt, carried out late.
            assert!(store.try_acquire(request).await.unwrap().granted().is_none(), "{strategy}");
            let state = store.inspect(&request.name).await.unwrap();
            assert!(state.is_none_or(|state| state.holder.is_none()), "{strategy}");
        }
    }
}

#[tokio::test]
async fn a_sweep_forgets_names_and_no_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = open(&path, Strategy::PrimaryKey).await;
    // Far ahead of the clock, so that only the watermark can know of it.
    let first = request("job");
    let grant = store.try_acquire(&first).await.unwrap().granted().unwrap();
    let ahead = FencingToken::new(grant.token.get() + 20_000_000).unwrap();
    store.raise(&grant, ahead).await.unwrap();
    store.release(&grant, Release::default()).await.unwrap();
    let mut names = 0;
    while store.inspect(&first.name).await.unwrap().is_some() {
        assert!(names < 1_000, "nothing was forgotten");
        let grant =
            store.try_acquire(&request(&format!("n{names}"))).await.unwrap().granted().unwrap();
        store.release(&grant, Release::default()).await.unwrap();
        names += 1;
    }
    let count = "SELECT count(*) FROM leasehold_locks";
    let rows: i64 = sqlx::query_scalar(count).fetch_one(&mut raw(&path).await).await.unwrap();
    assert_eq!(rows, 0, "left of {names} names");
    let grant = store.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    assert!(grant.token > ahead);
}

/// By the clock that leases count on, which nobody steps; an epoch that is over, by the day.
#[tokio::test]
async fn abandoned_owners_are_forgotten_when_no_statement_of_theirs_can_come() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let store = open(&path, Strategy::PrimaryKey).await;
    let fresh = request("job");
    store.abandon(&fresh).await.unwrap();
    let file = &mut raw(&path).await;
    let row = "INSERT INTO leasehold_abandoned SELECT $1, at + $2, coalesce($3, epoch), day + $4 \
               FROM leasehold_abandoned WHERE owner NOT LIKE '% %'";
    let (hour, none) = (3_600_000_000_000_i64, None::<&str>);
    for (owner, after, epoch, days) in [
        ("an hour ago", -hour, none, 0),
        // The wall clock was stepped.
        ("just now", 0, none, -400),
        ("another's just now", -hour, Some("another"), 0),
        ("another's long ago", hour, Some("another"), -2),
    ] {
        let row = sqlx::query(row).bind(owner).bind(after).bind(epoch).bind(days);
        row.execute(&mut *file).await.unwrap();
    }
    let left = "SELECT owner FROM leasehold_abandoned WHERE owner LIKE '% %' ORDER BY owner";
    // As many as bring a sweep for sure.
    for _ in 0..1_000 {
        store.abandon(&fresh).await.unwrap();
    }
    let left: Vec<String> = sqlx::query_scalar(left).fetch_all(&mut *file).await.unwrap();
    assert_eq!(left, ["another's just now", "just now"]);
}

#[tokio::test]
async fn a_fence_refuses_a_stale_token_with_the_write_that_it_came_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    let fence = SqliteFence::new("leasehold").unwrap();
    fence.create(&mut pool.acquire().await.unwrap()).await.unwrap();
    sqlx::query("CREATE TABLE account (value INTEGER)").execute(&pool).await.unwrap();

    let store = SqliteBuilder::with_pool(pool.clone()).build().await.unwrap();
    let client = LockClient::new(store);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let guard = client.lock("account").acquire().await.unwrap();
        tokens.push(guard.token());
        guard.release().await.unwrap();
    }
    // The later holder writes first; the earlier one was paused.
    for (at, token) in [(1, tokens[1]), (0, tokens[0]), (1, tokens[1])] {
        let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        sqlx::query("INSERT INTO account VALUES (?)")
            .bind(at)
            .execute(&mut *transaction)
            .await
            .unwrap();
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

#[tokio::test]
async fn another_writer_delays_and_is_named_when_it_never_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let patient = open(&path, Strategy::PrimaryKey).await;
    let grant = patient.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    let hasty = SqliteBuilder::new(&path).timeout(Duration::from_millis(50)).build().await.unwrap();

    let mut writer = raw(&path).await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut writer).await.unwrap();
    let error = hasty.try_acquire(&request("other")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("others kept writing"), "{error}");
    // A read does not wait.
    assert!(patient.inspect(&grant.name).await.unwrap().unwrap().holder.is_some());
    let release = patient.release(&grant, Release::default());
    let commit = async { sqlx::query("COMMIT").execute(&mut writer).await.unwrap() };
    let (released, _) = tokio::join!(release, commit);
    assert_eq!(released.unwrap().outcome, lock_core::Outcome::Released);
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "this is no database, and long enough to be looked at as one").unwrap();
    for (path, part) in [
        (folder.path().to_owned(), "is a directory"),
        (folder.path().join("no/locks.db"), "is no folder"),
        (text, "is no SQLite database"),
        ("/proc/locks.db".into(), "cannot be opened"),
        ("/dev/null".into(), "is no regular file"),
    ] {
        let error = match SqliteBuilder::new(&path).build().await {
            Err(error) => error,
            Ok(store) => store.try_acquire(&request("job")).await.unwrap_err(),
        };
        let unavailable = error.kind() == ErrorKind::Unavailable && part == "cannot be opened";
        assert!(unavailable || error.kind() == ErrorKind::Config, "{error}");
        let message = error.to_string();
        assert!(message.contains(part) && message.contains(&*path.to_string_lossy()), "{message}");
        assert!(!message.contains('\n'));
    }
}

#[tokio::test]
async fn clients_agree_on_the_longest_lease_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let url = |query: &str| format!("sqlite:{}{query}", path.display());
    let store = connect(&url("?longest_lease=1m")).await.unwrap();
    let init = Init::default();
    assert_eq!(store.init(&init).await.unwrap().longest_lease, Duration::from_secs(60));
    let other = connect(&url("")).await.unwrap();
    assert_eq!(other.guarantees().longest_lease, Duration::from_secs(60));
    let error = connect(&url("?longest_lease=30s")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("30s") && error.to_string().contains("1m"), "{error}");
    let init = Init { longest_lease: Some(Duration::from_millis(1)), ..Init::default() };
    assert_eq!(store.init(&init).await.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn names_are_compared_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    for strategy in BOTH {
        let store = open(&folder.path().join("locks.db"), strategy).await;
        let mut grants = Vec::new();
        for name in ["a", "A", "a ", "ä", "a\u{308}", "%", "_", "'; DROP TABLE x", "{locks}", "a/b"]
        {
            grants.push(store.try_acquire(&request(name)).await.unwrap().granted().unwrap());
        }
        let listed = store.list(None).await.unwrap().locks;
        assert_eq!(listed.len(), grants.len());
        for grant in &grants {
            store.release(grant, Release::default()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_clients_count_without_losing_one() {
    for strategy in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        // Each its own connection, as another process would have.
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(LockClient::new(open(&path, strategy).await));
        }
        count(clients, 10).await;
    }
}

/// SQLite commits a statement after its last row: a commit that fails (a full disk, here a constraint
/// that is checked there) must not look like a grant.
#[tokio::test]
async fn a_grant_whose_commit_fails_is_none() {
    for strategy in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let store = open(&path, strategy).await;
        let first = request("job");
        let grant = store.try_acquire(&first).await.unwrap().granted().unwrap();
        store.release(&grant, Release::default()).await.unwrap();
        let sql = "CREATE TABLE parent (id INTEGER PRIMARY KEY);
            CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
            CREATE TRIGGER fail AFTER UPDATE ON leasehold_locks WHEN new.owner IS NOT NULL
            BEGIN INSERT INTO child VALUES (1); END";
        sqlx::raw_sql(sql).execute(&mut raw(&path).await).await.unwrap();
        let answer = store.try_acquire(&request("job")).await;
        assert!(answer.is_err(), "{strategy}: {answer:?}");
        let state = store.inspect(&first.name).await.unwrap().unwrap();
        assert_eq!(state.holder, None);
    }
}

/// A request that a release takes along is refused when it asks for itself, and stops no release.
#[tokio::test]
async fn a_release_that_carries_what_cannot_be_granted_is_a_release() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("locks.db"), Strategy::PrimaryKey).await;
    let far = FencingToken::new(SystemEnv.wall_micros() + 3_600_000_000).unwrap();
    for (floor, lease) in [(far, LEASE), (FencingToken::ZERO, LEASE * 100)] {
        let grant = store.try_acquire(&request("job")).await.unwrap().granted().unwrap();
        let mut next = request("job");
        (next.floor, next.lease) = (floor, lease);
        let how = Release { keep: None, next: Some(&next) };
        let released = store.release(&grant, how).await.unwrap();
        assert!(released.next.is_none(), "{released:?}");
        let error = store.try_acquire(&next).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

/// Also where another makes the file after this client was opened.
#[tokio::test]
async fn a_client_that_disagrees_is_refused_and_no_lease_is_longer_than_the_longest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let told = SqliteBuilder::new(&path).longest_lease(LEASE).build().await.unwrap();
    let not_told = open(&path, Strategy::PrimaryKey).await;
    let theirs = SqliteBuilder::new(&path).longest_lease(LEASE / 2).build().await.unwrap();
    let mut short = request("job");
    short.lease = LEASE / 2;
    let grant = theirs.try_acquire(&short).await.unwrap().granted().unwrap();
    theirs.release(&grant, Release::default()).await.unwrap();
    let error = told.try_acquire(&short).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let error = not_told.try_acquire(&request("job")).await.unwrap_err();
    assert!(error.to_string().contains("longest lease, 5s"), "{error}");
    not_told.try_acquire(&short).await.unwrap().granted().unwrap();
}
