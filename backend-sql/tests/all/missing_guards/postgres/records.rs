//! Records: a takeover beside a write, and what is lost.

use backend_sql::postgres::connect;
use lock_core::WriteOutcome;
use servers::{Data, Server as _};
use sqlx::Connection as _;
use verification::missing_guards::record_cases::{write_of, written};

use super::{
    Clients as _, LONG, OnePostgres, Verdict, first_use, granted,
    marker::a_copy,
    request,
    rows::{a_locked_row, waits_for_a_row},
    words,
};

/// Another transaction gives the lock to somebody else, and has not committed yet.
pub(super) async fn a_write_beside_a_takeover(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let mut taking = a_locked_row(stage).await?;
    let takes = "UPDATE leasehold_locks SET owner = repeat('1', 32) WHERE name = 'a'";
    sqlx::query(takes).execute(&mut taking).await.map_err(words)?;
    let writing = tokio::spawn(async move { store.write_record(&grant, &write_of(1)).await });
    waits_for_a_row(stage, || writing.is_finished()).await?;
    sqlx::query("COMMIT").execute(&mut taking).await.map_err(words)?;
    taking.close().await.map_err(words)?;
    match writing.await.map_err(words)?.map_err(words)? {
        WriteOutcome::NotHeld => Ok(()),
        WriteOutcome::Written => Err("a former holder wrote the record".to_owned()),
    }
}

pub(super) async fn a_write_to_an_unlogged_table(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    stage.server.sql("ALTER TABLE leasehold_records SET UNLOGGED").await.map_err(words)?;
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
    match after.complete_since > before.now {
        true => Ok(()),
        false => Err(format!("a crash is not known: {after:?}")),
    }
}

pub(super) async fn a_record_in_a_copied_database(stage: &mut OnePostgres) -> Verdict {
    let (grant, copied) = a_copy(stage).await?;
    let store = connect(&copied).await.unwrap();
    let read = store.read_record(&grant.name).await.map_err(words)?;
    match read.complete_since == read.now {
        true => Ok(()),
        false => Err(format!("a copy is not known: {read:?}")),
    }
}

/// The tests' servers do not flush.
pub(super) async fn a_server_that_flushes_nothing(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    if stage.server.sql("SHOW fsync").await.map_err(words)? != "off" {
        return Err("the server flushes".to_owned());
    }
    match store.guarantees().record.holds() {
        false => Ok(()),
        true => Err("a server without fsync is believed".to_owned()),
    }
}
