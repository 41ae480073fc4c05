//! Tables that a loss of data would leave with old locks, or would empty although they must outlive
//! it; and a sweep beside a row that another transaction has locked.

use backend_sql::postgres::PostgresFence;
use lock_core::{ErrorKind, FenceError, FencingToken};
use servers::wait::until;
use sqlx::{Connection as _, PgConnection};
use verification::missing_guards::{
    Verdict,
    cases::{LONG, above, check, first_use, granted, refused, request, words},
};

use super::{Clients as _, Database as _, OnePostgres, rows::LOCKED};
use crate::missing_guards::common::{stale_write, used_once};

/// The table is stored otherwise while the client runs, and a client that was about to make the
/// marker anew does so.
pub(super) async fn an_attempt_after(stage: &OnePostgres, change: &str) -> Verdict {
    let store = first_use(stage).await;
    let anew = "UPDATE leasehold_marker SET itself = pg_relation_filenode('leasehold_marker')";
    stage.sql(&format!("ALTER TABLE leasehold_{change}; {anew}")).await?;
    refused(ErrorKind::Config, store.try_acquire(&request("a", LONG)).await)
}

pub(super) async fn a_stale_write(stage: &OnePostgres) -> Verdict {
    stale_write!(PostgresFence, PgConnection, stage.plain()).await
}

pub(super) async fn a_write_after_the_fence_became_unlogged(stage: &OnePostgres) -> Verdict {
    let fence = PostgresFence::new("fenced").unwrap();
    let mut session = PgConnection::connect(&stage.plain()).await.map_err(words)?;
    fence.create(&mut session).await.map_err(words)?;
    let token = FencingToken::new(7).unwrap();
    fence.admit(&mut session, "data", token).await.map_err(words)?;
    stage.sql("ALTER TABLE fenced_fence SET UNLOGGED").await?;
    match fence.admit(&mut session, "data", token).await {
        Err(FenceError::Store(error)) if error.kind() == ErrorKind::Config => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

pub(super) async fn a_sweep_beside_a_locked_row(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    for name in ["a", "b"] {
        used_once(&*store, &request(name, LONG)).await?;
    }
    let covered = "UPDATE leasehold_marker SET raised = clock_timestamp() - interval '2 minutes', \
                   watermark = (SELECT max(token) FROM leasehold_locks)";
    stage.sql(covered).await?;
    let _holding = stage.session(LOCKED).await?;
    // A client sweeps once in a thousand releases.
    for _ in 0..1_001 {
        used_once(&*store, &request("busy", LONG)).await?;
    }
    let rows = "SELECT count(*) FROM leasehold_locks WHERE name = 'b'";
    let swept = || async { Ok((stage.server.sql(rows).await? == "0").then_some(())) };
    until("the row to be swept", LONG, swept).await.map_err(words)
}

pub(super) async fn a_token_over_a_sweep(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let first = used_once(&*store, &request("a", LONG)).await?;
    stage.clock.step(-3_600.0).unwrap();
    // A client sweeps once in a thousand releases.
    for _ in 0..1_001 {
        used_once(&*store, &request("busy", LONG)).await?;
    }
    // Waits for the sweep.
    store.close().await;
    above(&first, &granted(&*stage.open().await, &request("a", LONG)).await?)
}
