//! How a loss of data is noticed: by the marker, and by the store that each row names.

use backend_sql::postgres::connect;
use lock_core::{Attempt, Enqueued, Grant, ReleaseOptions};
use servers::{Data, Server as _};
use sqlx::{Connection as _, PgConnection};
use verification::missing_guards::{
    Clients as _, Verdict,
    cases::{LONG, check, enqueue, first_use, granted, held_by, not_granted, request, words},
};

use super::{Database as _, OnePostgres};
use crate::missing_guards::common::used_once;

/// Holds `a` and copies the database. Returns the URL of the copy, which has the original's marker,
/// in a file with the same number, and the row of `a`.
pub(super) async fn a_copy(stage: &OnePostgres) -> Result<(Grant, String), String> {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    store.close().await;
    stage.sql("CREATE DATABASE copied TEMPLATE postgres").await?;
    let copied = format!("postgres://postgres@{}/copied", stage.proxy.address());
    let mut session = PgConnection::connect(&copied).await.map_err(words)?;
    let rows = "SELECT count(*) FROM leasehold_marker AS m, leasehold_locks AS l \
                WHERE m.itself = pg_relation_filenode(m.tableoid) \
                    AND l.itself = pg_relation_filenode(l.tableoid) AND l.owner IS NOT NULL";
    let rows: i64 = sqlx::query_scalar(rows).fetch_one(&mut session).await.map_err(words)?;
    match rows {
        1 => Ok((grant, copied + "?timeout=30s")),
        _ => Err("the tables were not copied".to_owned()),
    }
}

pub(super) async fn an_attempt_in_a_copied_database(stage: &OnePostgres) -> Verdict {
    let (_, copied) = a_copy(stage).await?;
    not_granted(&*connect(&copied).await.unwrap(), &request("b", LONG)).await
}

pub(super) async fn a_row_left_behind_in_a_copied_database(stage: &OnePostgres) -> Verdict {
    let (grant, copied) = a_copy(stage).await?;
    let store = connect(&copied).await.unwrap();
    store.release(&grant, ReleaseOptions::default()).await.map_err(words)?;
    not_granted(&*store, &request("a", LONG)).await
}

pub(super) async fn a_release_with_a_next_in_a_copied_database(stage: &OnePostgres) -> Verdict {
    let (grant, copied) = a_copy(stage).await?;
    let next = request("a", LONG);
    let options = ReleaseOptions::new().with_next(&next);
    let store = connect(&copied).await.unwrap();
    let next = store.release(&grant, options).await.map_err(words)?.next;
    check(!matches!(next, Some(Enqueued::Granted(_))), || format!("handed on: {next:?}"))
}

pub(super) async fn a_release_to_an_entry_in_a_copied_database(stage: &OnePostgres) -> Verdict {
    let (grant, copied) = a_copy(stage).await?;
    let (store, other) = (connect(&copied).await.unwrap(), connect(&copied).await.unwrap());
    let _waiter = enqueue(&*other, &request("a", LONG)).await?;
    store.release(&grant, ReleaseOptions::default()).await.map_err(words)?;
    let state = store.inspect(&grant.name).await.map_err(words)?;
    let holder = state.and_then(|state| state.holder);
    check(holder.is_none(), || format!("given to {holder:?}"))
}

/// As after a crash, except that rows and queue entries still exist.
async fn quarantine(stage: &OnePostgres) -> Verdict {
    let late = "UPDATE leasehold_marker SET grants_from = clock_timestamp() + interval '1 hour'";
    stage.sql(late).await.map(drop)
}

pub(super) async fn a_row_that_was_looked_at(stage: &OnePostgres) -> Verdict {
    let url = stage.url() + "&strategy=optimistic";
    first_use(stage).await;
    let store = connect(&url).await.unwrap();
    used_once(&*store, &request("a", LONG)).await?;
    quarantine(stage).await?;
    not_granted(&*connect(&url).await.unwrap(), &request("a", LONG)).await
}

pub(super) async fn an_entry_in_quarantine(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let other = stage.open().await;
    let mut wanted = request("a", LONG);
    // With a floor, it must ask for the lock itself.
    wanted.floor = held.token;
    let _waiter = enqueue(&*other, &wanted).await?;
    quarantine(stage).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    not_granted(&*other, &wanted).await
}

/// A call that gave the lock to another owner may be lost.
pub(super) async fn a_hand_over_in_quarantine(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    quarantine(stage).await?;
    let answer = store.reown(&held, &request("a", LONG)).await;
    held_by(&*store, held.owner).await?;
    check(answer.is_err(), || format!("it was handed over: {answer:?}"))
}

/// As after the restore of a dump, whose rows are old.
pub(super) async fn an_attempt_after_the_table_was_made_anew(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    granted(&*store, &request("a", LONG)).await?;
    let anew = "ALTER TABLE leasehold_marker RENAME TO before;
                CREATE UNLOGGED TABLE leasehold_marker (LIKE before INCLUDING ALL);
                INSERT INTO leasehold_marker SELECT * FROM before";
    stage.sql(anew).await?;
    not_granted(&*stage.open().await, &request("b", LONG)).await
}

pub(super) async fn an_attempt_after_a_crash(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    granted(&*store, &request("a", LONG)).await?;
    stage.server.restart(Data::Keep).await.unwrap();
    // The first client makes the marker anew; the next one finds it.
    not_granted(&*stage.open().await, &request("a", LONG)).await?;
    not_granted(&*stage.open().await, &request("a", LONG)).await
}

/// As after a loss of data, if the table was logged then, and no client ran.
pub(super) async fn a_row_of_a_table_that_was_logged(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    used_once(&*store, &request("a", LONG)).await?;
    let for_a_time = "ALTER TABLE leasehold_locks SET LOGGED; ALTER TABLE leasehold_marker SET LOGGED;
                      ALTER TABLE leasehold_locks SET UNLOGGED; ALTER TABLE leasehold_marker SET UNLOGGED";
    stage.sql(for_a_time).await?;
    not_granted(&*store, &request("a", LONG)).await
}

/// As on a promoted standby that had not received the last raise of the longest lease.
pub(super) async fn a_raise_that_was_not_heard_of(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    granted(&*store, &request("a", LONG)).await?;
    let before =
        "UPDATE leasehold_settings SET longest_lease = '1 second', quarantine = '1 second';
                  TRUNCATE leasehold_marker, leasehold_locks";
    stage.sql(before).await?;
    match store.try_acquire(&request("a", LONG)).await.map_err(words)? {
        Attempt::Quarantined(held_back) if held_back.remaining > LONG / 2 => Ok(()),
        other => Err(format!("no quarantine as long as the lease: {other:?}")),
    }
}
