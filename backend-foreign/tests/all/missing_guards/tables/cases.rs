//! The cases for guards that only the statements on ShedLock's table have.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, ErrorKind, FencingToken, Grant, OwnerId, ReleaseOptions, ReleaseOutcome,
    Renewal,
};
use servers::Postgres;
use sqlx::AssertSqlSafe;
use verification::missing_guards::{
    Clients as _, Verdict,
    cases::{
        LONG, SHORT, a_batch_with_a_locked_row, above, check, first_use, granted, left, name,
        not_granted, refused, renewed, request, words,
    },
};

use super::stage::{Clocked, MYSQL, POSTGRES, Table, a_locked_row, a_locked_row_of_mysql};
use crate::server::Server;

/// A renewal waits for a row for a part of the requested lease. With this lease that is longer than
/// a busy machine takes to unlock the row. The store's longest lease limits the lease that is set.
const PATIENT: Duration = LONG.saturating_mul(10);

async fn over(store: &dyn Backend) -> Result<Grant, String> {
    let grant = granted(store, &request("a", SHORT)).await?;
    tokio::time::sleep(2 * SHORT).await;
    Ok(grant)
}

async fn released(store: &dyn Backend, grant: &Grant) -> Verdict {
    store.release(grant, ReleaseOptions::default()).await.map(drop).map_err(words)
}

/// Takes the lock and releases it.
async fn free_again(store: &dyn Backend) -> Result<Grant, String> {
    let grant = granted(store, &request("a", LONG)).await?;
    released(store, &grant).await?;
    Ok(grant)
}

pub(super) async fn a_foreign_holder_of_the_row<const KIND: bool>(setup: &Table<KIND>) -> Verdict {
    let store = first_use(setup).await;
    let row = match KIND {
        MYSQL => "UTC_TIMESTAMP(3) + INTERVAL 1 MINUTE, UTC_TIMESTAMP(3)",
        POSTGRES => {
            "timezone('utc', clock_timestamp()) + interval '1 minute', timezone('utc', clock_timestamp())"
        }
    };
    setup.sql(&format!("INSERT INTO {{table}} VALUES ('a', {row}, 'host-7')")).await;
    not_granted(&*store, &request("a", LONG)).await?;
    let holder = setup.sql("SELECT locked_by FROM {table}").await;
    check(holder == "host-7", || format!("the holder is {holder:?} now"))
}

pub(super) async fn an_abandoned_owner_has_an_answer(setup: &Table<POSTGRES>) -> Verdict {
    first_use(setup).await;
    let store = setup.client("timeout=8s").await;
    free_again(&*store).await?;
    let given_up = request("a", LONG);
    store.abandon(&given_up).await.map_err(words)?;
    match store.try_acquire(&given_up).await {
        Ok(Attempt::Busy(_)) => Ok(()),
        other => Err(format!("it was answered {other:?}")),
    }
}

/// Returns when `waiting` finds a statement that waits for a row which another transaction has
/// locked.
async fn waits_for_a_row<F: Future<Output = Result<bool, String>>>(
    waiting: impl Fn() -> F,
    ended: impl Fn() -> bool,
) -> Verdict {
    while !waiting().await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if ended() {
            return Err("the statement did not wait".to_owned());
        }
    }
    Ok(())
}

async fn waits_in_postgres(server: &Postgres, table: &str, ended: impl Fn() -> bool) -> Verdict {
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{table}\"%'"
    );
    let waiting = || async { server.sql(&waits).await.map(|count| count != "0").map_err(words) };
    waits_for_a_row(waiting, ended).await
}

fn postgres(setup: &Table<POSTGRES>) -> &Postgres {
    let Server::Postgres(server) = &*setup.server else { panic!("it is another database") };
    server
}

pub(super) async fn an_attempt_abandoned_while_it_waits(setup: &Table<POSTGRES>) -> Verdict {
    let store = first_use(setup).await;
    free_again(&*store).await?;
    let mut holding = a_locked_row(postgres(setup), &setup.table).await;
    let late = request("a", LONG);
    let attempt = {
        let (store, late) = (Arc::clone(&store), late.clone());
        tokio::spawn(async move { store.try_acquire(&late).await })
    };
    waits_in_postgres(postgres(setup), &setup.table, || attempt.is_finished()).await?;
    store.abandon(&late).await.map_err(words)?;
    sqlx::raw_sql("COMMIT").execute(&mut holding).await.map_err(words)?;
    let answer = attempt.await.map_err(words)?;
    let state = store.inspect(&name("a")).await.map_err(words)?.ok_or("it is gone")?;
    check(state.holder.is_none(), || format!("it was answered {answer:?}"))
}

pub(super) async fn an_attempt_of_one_who_has_gone(setup: &Clocked) -> Verdict {
    let store = first_use(setup).await;
    free_again(&*store).await?;
    let mut holding = a_locked_row(&setup.server, "shedlock").await;
    let attempt = tokio::spawn(async move { store.try_acquire(&request("a", LONG)).await });
    waits_in_postgres(&setup.server, "shedlock", || attempt.is_finished()).await?;
    attempt.abort();
    setup.clock.step(61.0).unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut holding).await.map_err(words)?;
    let under_way = "SELECT count(*) FROM pg_stat_activity \
                     WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE '%\"shedlock\"%'";
    while setup.server.sql(under_way).await.map_err(words)? != "0" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    granted(&*setup.open().await, &request("a", LONG)).await.map(drop)
}

pub(super) async fn two_abandoned_owners<const KIND: bool>(setup: &Table<KIND>) -> Verdict {
    let store = first_use(setup).await;
    free_again(&*store).await?;
    let both = [request("a", LONG), request("a", LONG)];
    for given_up in &both {
        store.abandon(given_up).await.map_err(words)?;
    }
    for given_up in &both {
        not_granted(&*store, given_up).await?;
    }
    Ok(())
}

pub(super) async fn a_token_after_a_loss<const KIND: bool>(setup: &Table<KIND>) -> Verdict {
    let store = first_use(setup).await;
    let first = free_again(&*store).await?;
    setup.sql("DELETE FROM {table}_leasehold").await;
    above(&first, &granted(&*store, &request("a", LONG)).await?)
}

pub(super) async fn a_minimum_hold_by_another<const KIND: bool>(setup: &Table<KIND>) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let mut other = held.clone();
    other.owner = request("a", LONG).owner;
    let keep = ReleaseOptions::new().with_keep(SHORT);
    let _ = store.release(&other, keep).await;
    let state = store.inspect(&held.name).await.map_err(words)?.ok_or("it is gone")?;
    let there = state.holder.is_some_and(|holder| holder.owner == held.owner);
    check(there, || "the holder has lost it".to_owned())
}

pub(super) async fn a_late_minimum_hold<const KIND: bool>(setup: &Table<KIND>) -> Verdict {
    let store = first_use(setup).await;
    let late = over(&*store).await?;
    let keep = ReleaseOptions::new().with_keep(LONG);
    store.release(&late, keep).await.map_err(words)?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

pub(super) async fn a_longer_renewal_by_another(setup: &Table<POSTGRES>) -> Verdict {
    let store = first_use(setup).await;
    let mut other = granted(&*store, &request("a", LONG / 2)).await?;
    (other.owner, other.lease) = (request("a", LONG).owner, LONG);
    renewed(&*store, &other).await;
    let left = left(&*store).await?;
    check(left <= LONG / 2 + SHORT, || format!("it ends in {left:?}"))
}

pub(super) async fn a_batch_beside_another_transaction<const KIND: bool>(
    setup: &Table<KIND>,
) -> Verdict {
    match &*setup.server {
        Server::Postgres(server) => {
            let lock = async { Ok(a_locked_row(server, &setup.table).await) };
            a_batch_with_a_locked_row(setup, lock).await
        }
        server => {
            let lock = async { Ok(a_locked_row_of_mysql(server.address(), &setup.table).await) };
            a_batch_with_a_locked_row(setup, lock).await
        }
    }
}

/// The renewal gets the row when the lease has ended.
pub(super) async fn a_renewal_that_waits_for_the_row(setup: &Clocked) -> Verdict {
    let store = first_use(setup).await;
    let mut grant = granted(&*store, &request("a", LONG)).await?;
    grant.lease = PATIENT;
    let mut holding = a_locked_row(&setup.server, "shedlock").await;
    let renewing = tokio::spawn(async move { renewed(&*store, &grant).await });
    waits_in_postgres(&setup.server, "shedlock", || renewing.is_finished()).await?;
    setup.clock.step(LONG.as_secs_f64()).unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut holding).await.map_err(words)?;
    let answer = renewing.await.map_err(words)?;
    check(matches!(answer, Renewal::Lost(_)), || format!("it was answered {answer:?}"))
}

/// It gets the row when another has taken the lock.
pub(super) async fn a_renewal_of_what_was_taken<const KIND: bool>(setup: &Table<KIND>) -> Verdict {
    let change = format!("UPDATE {} SET locked_by = 'another' WHERE name = 'a'", setup.table);
    a_renewal_of_a_row_that_changes(setup, |_| change).await
}

/// The text under a heading of a file of statements.
fn statement<'a>(file: &'a str, name: &str) -> &'a str {
    let (_, text) = file.split_once(&format!("-- name: {name}(")).unwrap();
    let (_, text) = text.split_once('\n').unwrap();
    text.split("\n-- name:").next().unwrap()
}

/// It gets the row after the lock was released by a statement that began later than its own.
pub(super) async fn a_renewal_of_what_was_released(setup: &Table<MYSQL>) -> Verdict {
    let hold = include_str!("../../../../src/sql/mysql/hold.sql");
    let release = statement(hold, "release");
    a_renewal_of_a_row_that_changes(setup, |owner| setup.filled(release, owner)).await
}

/// The same by force.
pub(super) async fn a_renewal_of_what_was_freed(setup: &Table<MYSQL>) -> Verdict {
    let admin = include_str!("../../../../src/sql/mysql/admin.sql");
    let force = statement(admin, "force_release");
    a_renewal_of_a_row_that_changes(setup, |owner| setup.filled(force, owner)).await
}

async fn a_renewal_of_a_row_that_changes<const KIND: bool>(
    setup: &Table<KIND>,
    change: impl FnOnce(OwnerId) -> String,
) -> Verdict {
    let store = first_use(setup).await;
    let mut grant = granted(&*store, &request("a", LONG)).await?;
    grant.lease = PATIENT;
    let (table, change) = (&setup.table, format!("{}; COMMIT", change(grant.owner)));
    let renew = || tokio::spawn(async move { renewed(&*store, &grant).await });
    let renewing = match &*setup.server {
        Server::Postgres(server) => {
            let mut holding = a_locked_row(server, table).await;
            let renewing = renew();
            waits_in_postgres(server, table, || renewing.is_finished()).await?;
            sqlx::raw_sql(AssertSqlSafe(change)).execute(&mut holding).await.map_err(words)?;
            renewing
        }
        server => {
            // Through the proxy, which changes these statements too.
            let mut holding = a_locked_row_of_mysql(setup.proxied(), table).await;
            let renewing = renew();
            // Not from information_schema: InnoDB refreshes it only if nobody has read it for 100
            // ms.
            let waiting = || async {
                let status = server.sql("SHOW ENGINE INNODB STATUS").await;
                let waits =
                    |part: &str| part.contains("TRX HAS BEEN WAITING") && part.contains(table);
                Ok(status.split("---TRANSACTION").any(waits))
            };
            waits_for_a_row(waiting, || renewing.is_finished()).await?;
            sqlx::raw_sql(AssertSqlSafe(change)).execute(&mut holding).await.map_err(words)?;
            renewing
        }
    };
    let answer = renewing.await.map_err(words)?;
    check(matches!(answer, Renewal::Lost(_)), || format!("it was answered {answer:?}"))
}

pub(super) async fn a_late_raise<const KIND: bool>(setup: &Table<KIND>) -> Verdict {
    let store = first_use(setup).await;
    let late = over(&*store).await?;
    let higher = FencingToken::new(late.token.get() + 1).unwrap();
    refused(ErrorKind::NotHeld, store.raise(&late, higher).await)
}

/// The last token was made while the clock was an hour ahead.
pub(super) async fn a_token_over_a_force<const KIND: bool>(setup: &Table<KIND>) -> Verdict {
    let store = first_use(setup).await;
    let mut last = free_again(&*store).await?;
    setup.sql("UPDATE {table}_leasehold SET token = token + 3600000000").await;
    last.token = FencingToken::new(last.token.get() + 3_600_000_000).unwrap();
    store.force_release(&last.name).await.map_err(words)?;
    above(&last, &granted(&*store, &request("a", LONG)).await?)
}

pub(super) async fn force_of_a_free_name<const KIND: bool>(setup: &Table<KIND>) -> Verdict {
    let store = first_use(setup).await;
    free_again(&*store).await?;
    let answer = store.force_release(&name("a")).await.map_err(words)?;
    check(answer == ReleaseOutcome::NotHeld, || format!("it was answered {answer:?}"))
}

pub(super) async fn only_leasehold_locks_in_a_listing<const KIND: bool>(
    setup: &Table<KIND>,
) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &request("a", LONG)).await?;
    let kept = granted(&*store, &request("b", LONG)).await?;
    store.release(&kept, ReleaseOptions::new().with_keep(LONG)).await.map_err(words)?;
    let page = store.list(None).await.map_err(words)?;
    check(page.locks.len() == 2, || format!("{page:?}"))
}
