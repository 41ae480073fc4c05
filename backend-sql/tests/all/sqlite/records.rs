//! Records in a file.

use std::{sync::Arc, time::Duration};

use backend_sql::{Strategy, sqlite::SqliteBuilder};
use conformance_tests::Observed;
use lock_core::{LockClient, RecordWrite, ReleaseOptions, StoreTime, WriteOutcome};
use sqlx::{
    ConnectOptions as _, Executor as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteSynchronous},
};
use tokio::sync::Mutex;

use crate::support::{
    cause_a_sweep, granted,
    sqlite::{LEASE, file, open, raw, request},
};

const DAY: Duration = Duration::from_secs(86_400);

fn done() -> RecordWrite {
    RecordWrite::new("done", DAY).unwrap()
}

/// Notes for which commits the connection that writes waits for the disk.
const WATCH: &str = "CREATE TABLE waited (what TEXT, synchronous INTEGER); \
    CREATE TRIGGER locked AFTER INSERT ON leasehold_locks BEGIN \
        INSERT INTO waited SELECT 'lock', synchronous FROM pragma_synchronous; END; \
    CREATE TRIGGER recorded AFTER INSERT ON leasehold_records BEGIN \
        INSERT INTO waited SELECT 'record', synchronous FROM pragma_synchronous; END";

/// Only the write of a record waits: after a loss of power it is still there.
#[tokio::test]
async fn the_write_of_a_record_waits_for_the_disk_and_nothing_else_does() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    granted(&store, &request("first")).await;
    let mut session = raw(&path).await;
    session.execute(WATCH).await.unwrap();
    let pool = SqliteConnectOptions::new().filename(&path).synchronous(SqliteSynchronous::Off);
    let pool = SqlitePool::connect_with(pool.disable_statement_logging()).await.unwrap();
    let own = SqliteBuilder::with_pool(pool.clone()).build().await.unwrap();
    for (store, level) in [(store, 1), (own, 0)] {
        for name in ["one", "two"] {
            let name = format!("{name} {level}");
            let grant = granted(&store, &request(&name)).await;
            let written = store.write_record(&grant, &done()).await.unwrap();
            assert_eq!(written, WriteOutcome::Written);
        }
        let waited: Vec<(String, i64)> = sqlx::query_as("SELECT what, synchronous FROM waited")
            .fetch_all(&mut session)
            .await
            .unwrap();
        let expected = [("lock", level), ("record", 2), ("lock", level), ("record", 2)];
        assert_eq!(waited, expected.map(|(what, level)| (what.to_owned(), level)));
        session.execute("DELETE FROM waited").await.unwrap();
    }
    // The pool has its connections back as they were.
    for _ in 0..pool.num_idle() {
        let level: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&pool).await.unwrap();
        assert_eq!(level, 0);
    }
}

#[tokio::test]
async fn a_sweep_forgets_records_whose_time_is_over_and_no_other() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::Optimistic).await;
    let mut grants = Vec::new();
    for name in ["kept", "over"] {
        let grant = granted(&store, &request(name)).await;
        assert_eq!(store.write_record(&grant, &done()).await.unwrap(), WriteOutcome::Written);
        store.release(&grant, ReleaseOptions::new()).await.unwrap();
        grants.push(grant);
    }
    let over = "UPDATE leasehold_records SET forget_at = written WHERE name = 'over'";
    raw(&path).await.execute(over).await.unwrap();
    cause_a_sweep(&store).await;
    let record = async |at: usize| store.read_record(&grants[at].name).await.unwrap().record;
    assert_eq!(record(0).await.unwrap().token, grants[0].token);
    assert_eq!(record(1).await, None);
}

/// A read makes no file.
#[tokio::test]
async fn a_store_that_nobody_has_used_has_no_record() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    let read = store.read_record(&request("job").name).await.unwrap();
    assert_eq!((read.record, read.complete_since), (None, StoreTime::EVER));
    assert!(!path.exists());
}

/// Another process keeps the file's write lock. Until it ends, nothing is counted and no latch
/// opens; then the part counts once.
#[tokio::test]
async fn a_count_that_the_file_refuses_is_repeated_and_counts_once() {
    let (_folder, path) = file();
    let store = SqliteBuilder::new(&path).timeout(Duration::from_secs(2)).build().await.unwrap();
    granted(&store, &request("first")).await;
    let (counter, faults) = Observed::with_record_faults(store);
    let watcher = LockClient::new(open(&path, Strategy::PrimaryKey).await);
    let latch = |client: &LockClient| client.latch("batch", ["a", "b"]).lease(LEASE);
    let (counter, watcher) = (latch(&LockClient::new(counter)), latch(&watcher));
    let waiting = tokio::spawn({
        let watcher = watcher.clone();
        async move { watcher.wait().await }
    });
    let other = Arc::new(Mutex::new(raw(&path).await));
    let blocks = Arc::clone(&other);
    faults.before_next_write(async move {
        blocks.lock().await.execute("BEGIN IMMEDIATE").await.unwrap();
    });
    let counting = tokio::spawn({
        let counter = counter.clone();
        async move { counter.count_down("a").await }
    });
    faults.failed_writes(1).await;
    assert_eq!(watcher.open_parts().await.unwrap(), ["a", "b"]);
    other.lock().await.execute("COMMIT").await.unwrap();
    counting.await.unwrap().unwrap();
    assert_eq!(watcher.open_parts().await.unwrap(), ["b"]);
    assert!(!waiting.is_finished(), "a latch with an open part was open");
    watcher.count_down("b").await.unwrap();
    waiting.await.unwrap().unwrap();
}
