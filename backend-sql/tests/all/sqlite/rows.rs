//! The rows of a SQLite file, and what sweeps delete.

use std::{
    sync::Arc,
    time::{Duration, Instant as Started},
};

use crate::support::sqlite::{BOTH, LEASE, busy, file, open, raw, request, used_once};
use backend_sql::Strategy;
use lock_core::{Env as _, LockClient, SystemEnv, TryAcquire};

#[tokio::test]
async fn a_version_remembered_from_a_row_that_was_swept_away_takes_nothing_held() {
    let (_folder, path) = file();
    let (remembering, other) = (open(&path, BOTH[1]).await, open(&path, BOTH[0]).await);
    used_once(&remembering, &request("job")).await;
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
    let busy = busy(&remembering, &request("job")).await;
    assert_eq!(busy.token, held.token);
}

/// Records of this epoch are deleted by the clock of leases, which nobody steps, and those of other
/// epochs by the day.
#[tokio::test]
async fn abandoned_owners_are_deleted_when_no_statement_of_theirs_can_arrive() {
    let (_folder, path) = file();
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
async fn a_row_of_another_boot_is_held_for_its_lease_from_when_it_is_first_seen() {
    for strategy in BOTH {
        let (_folder, path) = file();
        let store = open(&path, strategy).await;
        let mut theirs = request("job");
        theirs.lease = Duration::from_millis(400);
        let grant = store.try_acquire(&theirs).await.unwrap().granted().unwrap();
        // As after a reboot, when the times mean nothing any more.
        let sql = "UPDATE leasehold_locks SET epoch = 'another boot', expires = 1";
        sqlx::query(sql).execute(&mut raw(&path).await).await.unwrap();

        let started = Started::now();
        let client = LockClient::new(Arc::clone(&store));
        assert!(matches!(client.lock("job").try_acquire().await.unwrap(), TryAcquire::Busy(_)));
        let guard = client.lock("job").acquire().await.unwrap();
        assert!(started.elapsed() >= theirs.lease, "{strategy}: {:?}", started.elapsed());
        assert!(guard.token() > grant.token);
        // The old owner comes back.
        assert!(matches!(
            store.renew(&[&grant], SystemEnv.now()).await[..],
            [lock_core::Renewal::Lost(lock_core::LossReason::TakenOver)]
        ));
    }
}

/// A late renewal with a shorter lease, or a late repeat, does not shorten a lease. Other clocks
/// count by its length.
#[tokio::test]
async fn a_lease_that_stays_long_stays_long_by_other_clocks() {
    let (_folder, path) = file();
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
        let busy = busy(&store, &request("job")).await;
        // Less the time that this has taken.
        assert!(busy.holder.unwrap().remaining > LEASE / 4, "repeat: {repeat}");
        sqlx::query(set).bind(ours).execute(&mut *file).await.unwrap();
    }
}

/// SQLite commits a statement after its last row: a commit that fails (a full disk, here a
/// constraint that is checked there) must not look like a grant.
#[tokio::test]
async fn a_grant_whose_commit_fails_is_none() {
    for strategy in BOTH {
        let (_folder, path) = file();
        let store = open(&path, strategy).await;
        let first = request("job");
        used_once(&store, &first).await;
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

#[tokio::test]
async fn rows_that_cannot_be_read_hold_their_locks_and_hide_no_other() {
    for strategy in BOTH {
        let (_folder, path) = file();
        let store = open(&path, strategy).await;
        let columns = [
            "label = char(7)",
            "owner = 'somebody'",
            "owner = CAST(x'ff07' AS TEXT)",
            "token = -1, epoch = CAST(x'ff07' AS TEXT)",
            "token = -9223372036854775808",
            "token = 9223372036854775807, expires = 9223372036854775807",
        ];
        let no_name = "CAST(x'41ff' AS TEXT)";
        crate::support::damaged_rows_hold_their_locks(
            &store,
            &columns,
            no_name,
            async |name, columns| {
                let sql = format!("UPDATE leasehold_locks SET {columns} WHERE name = '{name}'");
                sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut raw(&path).await).await.unwrap();
            },
        )
        .await;
    }
}
