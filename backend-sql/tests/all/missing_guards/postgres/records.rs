//! Records: a takeover beside a write, and what is lost.

use backend_sql::postgres::connect;
use lock_core::WriteOutcome;
use servers::{Data, Server as _};
use verification::missing_guards::{
    Clients as _, Verdict,
    cases::{LONG, check, first_use, granted, request, words},
    record_cases::{write_of, written},
};

use super::{
    Database as _, OnePostgres,
    marker::a_copy,
    rows::{LOCKED, waits_for_a_row},
};

/// Another transaction gives the lock to somebody else, and has not committed yet.
pub(super) async fn a_write_beside_a_takeover(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let mut taking = stage.session(LOCKED).await?;
    let takes = "UPDATE leasehold_locks SET owner = repeat('1', 32) WHERE name = 'a'";
    sqlx::query(takes).execute(&mut taking).await.map_err(words)?;
    let writing = tokio::spawn(async move { store.write_record(&grant, &write_of(1)).await });
    waits_for_a_row(stage, || writing.is_finished()).await?;
    sqlx::query("COMMIT").execute(&mut taking).await.map_err(words)?;
    match writing.await.map_err(words)?.map_err(words)? {
        WriteOutcome::NotHeld => Ok(()),
        WriteOutcome::Written => Err("a former holder wrote the record".to_owned()),
    }
}

pub(super) async fn a_write_to_an_unlogged_table(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    stage.sql("ALTER TABLE leasehold_records SET UNLOGGED").await?;
    match store.write_record(&grant, &write_of(1)).await {
        Err(error) if error.to_string().contains("SET LOGGED") => Ok(()),
        other => Err(format!("not refused: {other:?}")),
    }
}

pub(super) async fn a_record_from_before_a_crash(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    written(&*store, &grant, 1).await?;
    let before = store.read_record(&grant.name).await.map_err(words)?;
    stage.server.restart(Data::Keep).await.unwrap();
    let store = stage.open().await;
    // The attempt makes the marker anew.
    store.try_acquire(&request("a", LONG)).await.map_err(words)?;
    let after = store.read_record(&grant.name).await.map_err(words)?;
    let right = after.complete_since > before.now;
    check(right, || format!("a crash is not known: {after:?}"))
}

pub(super) async fn a_record_in_a_copied_database(stage: &OnePostgres) -> Verdict {
    let (grant, copied) = a_copy(stage).await?;
    let store = connect(&copied).await.unwrap();
    let read = store.read_record(&grant.name).await.map_err(words)?;
    let right = read.complete_since == read.now;
    check(right, || format!("a copy is not known: {read:?}"))
}

/// The tests' servers do not flush.
pub(super) async fn a_server_that_flushes_nothing(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    if stage.sql("SHOW fsync").await? != "off" {
        return Err("the server flushes".to_owned());
    }
    let promised = store.guarantees().record.holds();
    check(!promised, || "a server without fsync is believed".to_owned())
}
