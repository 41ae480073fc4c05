//! Tables that a loss of data would leave with old locks, or would empty although they must outlive
//! it; and a sweep beside a row that another transaction has locked.

use backend_sql::postgres::PostgresFence;
use lock_core::{Attempt, ErrorKind, FenceError, FencingToken};
use servers::wait::until;
use sqlx::{Connection as _, PgConnection};

use super::{LONG, OnePostgres, Verdict, first_use, request, rows::a_locked_row, words};
use crate::missing_guards::entries::used_once;

/// The marker becomes logged, and a client that was about to make it anew does so.
pub(super) const MADE_AS_LOGGED: &str = "marker SET LOGGED; \
    UPDATE leasehold_marker SET itself = pg_relation_filenode('leasehold_marker')";

/// The table is stored otherwise while the client runs.
pub(super) async fn an_attempt_after(stage: &mut OnePostgres, change: &str) -> Verdict {
    let store = first_use(stage).await;
    stage.server.sql(&format!("ALTER TABLE leasehold_{change}")).await.map_err(words)?;
    match store.try_acquire(&request("a", LONG)).await {
        Ok(Attempt::Granted(grant)) => Err(format!("granted, with {}", grant.token)),
        Err(error) if error.kind() == ErrorKind::Config => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

pub(super) async fn a_write_after_the_fence_became_unlogged(stage: &mut OnePostgres) -> Verdict {
    let fence = PostgresFence::new("fenced").unwrap();
    let mut session = PgConnection::connect(&stage.plain()).await.map_err(words)?;
    fence.create(&mut session).await.map_err(words)?;
    let token = FencingToken::new(7).unwrap();
    fence.admit(&mut session, "data", token).await.map_err(words)?;
    stage.server.sql("ALTER TABLE fenced_fence SET UNLOGGED").await.map_err(words)?;
    match fence.admit(&mut session, "data", token).await {
        Err(FenceError::Store(error)) if error.kind() == ErrorKind::Config => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

pub(super) async fn a_sweep_beside_a_locked_row(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    for name in ["a", "b"] {
        used_once(&*store, &request(name, LONG)).await?;
    }
    let covered = "UPDATE leasehold_marker SET raised = clock_timestamp() - interval '2 minutes', \
                   watermark = (SELECT max(token) FROM leasehold_locks)";
    stage.server.sql(covered).await.map_err(words)?;
    let _holding = a_locked_row(stage).await?;
    // A client sweeps once in a thousand releases.
    for _ in 0..1_001 {
        used_once(&*store, &request("busy", LONG)).await?;
    }
    let rows = "SELECT count(*) FROM leasehold_locks WHERE name = 'b'";
    let swept = || async { Ok((stage.server.sql(rows).await? == "0").then_some(())) };
    until("the row to be swept", LONG, swept).await.map_err(words)
}
