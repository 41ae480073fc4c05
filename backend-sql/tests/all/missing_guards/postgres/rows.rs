//! Statements that wait for a row.

use std::time::Duration;

use lock_core::{Env as _, Renewal, SystemEnv};
use sqlx::Connection as _;
use verification::missing_guards::{
    Verdict,
    cases::{LONG, a_batch_with_a_locked_row, first_use, granted, request, words},
};

use super::{Clients as _, Database as _, OnePostgres};
use crate::missing_guards::common::{above, below_a_watermark, used_once};

pub(super) async fn an_attempt_that_waits_for_the_row(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    used_once(&*store, &request("a", LONG)).await?;
    // Another client, which does not know the row's version.
    let other = stage.open().await;
    let mut session = stage.session("").await?;
    let mut holding = session.begin().await.map_err(words)?;
    // As if the lock had changed hands meanwhile, with a token that leads the clock.
    let lead =
        "UPDATE leasehold_locks SET token = token + 25000000 WHERE name = 'a' RETURNING token";
    let token: i64 = sqlx::query_scalar(lead).fetch_one(&mut *holding).await.map_err(words)?;
    let asked = request("a", LONG);
    let attempt = tokio::spawn(async move { granted(&*other, &asked).await });
    waits_for_a_row(stage, || attempt.is_finished()).await?;
    holding.commit().await.map_err(words)?;
    let grant = attempt.await.map_err(words)??;
    above(&grant, token.cast_unsigned())
}

pub(super) async fn an_attempt_that_waits_for_a_new_row(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let mut session = stage.session("").await?;
    let mut holding = session.begin().await.map_err(words)?;
    let row = "INSERT INTO leasehold_locks (name, token, version, expires, kept) \
               VALUES ('a', 1, 1, now(), false)";
    sqlx::query(row).execute(&mut *holding).await.map_err(words)?;
    let attempt = tokio::spawn(async move { granted(&*store, &request("a", LONG)).await });
    waits_for_a_row(stage, || attempt.is_finished()).await?;
    // As after a sweep that has deleted this token, which leads the clock.
    let lead = "UPDATE leasehold_marker SET watermark = \
                (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 3600000000";
    stage.sql(lead).await?;
    let watermark = "SELECT watermark FROM leasehold_marker";
    let watermark = stage.sql(watermark).await?;
    let watermark: u64 = watermark.parse().map_err(words)?;
    stage.clock.step(61.0).unwrap();
    holding.rollback().await.map_err(words)?;
    let grant = attempt.await.map_err(words)??;
    above(&grant, watermark)
}

/// Begins a transaction that has changed the row of `a`: a statement that waits for it reads the
/// row again.
pub(super) const LOCKED: &str =
    "BEGIN; UPDATE leasehold_locks SET version = version WHERE name = 'a'";

pub(super) async fn a_batch_beside_a_locked_row(stage: &OnePostgres) -> Verdict {
    a_batch_with_a_locked_row(stage, stage.session(LOCKED)).await
}

/// The watermark leads the clock.
pub(super) async fn below_the_watermark(stage: &OnePostgres) -> Verdict {
    let lead = "UPDATE leasehold_marker SET watermark = \
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 25000000 RETURNING watermark";
    below_a_watermark(stage, lead).await
}

/// The renewal gets its row when the lease is over.
pub(super) async fn a_renewal_that_waits_for_the_row(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let mut holding = stage.session(LOCKED).await?;
    let (renewed, sent) = (grant.clone(), SystemEnv.now());
    let renewing = tokio::spawn(async move { store.renew(&[&renewed], sent).await.pop() });
    waits_for_a_row(stage, || renewing.is_finished()).await?;
    stage.clock.step(LONG.as_secs_f64()).unwrap();
    sqlx::query("COMMIT").execute(&mut holding).await.map_err(words)?;
    match renewing.await.map_err(words)? {
        Some(Renewal::Lost(_)) => Ok(()),
        other => Err(format!("the lease was over, and it was answered {other:?}")),
    }
}

/// Returns when a statement waits for a row that another transaction has locked.
pub(super) async fn waits_for_a_row(stage: &OnePostgres, ended: impl Fn() -> bool) -> Verdict {
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while stage.sql(waits).await? == "0" {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if ended() {
            return Err("the attempt did not wait".to_owned());
        }
    }
    Ok(())
}
