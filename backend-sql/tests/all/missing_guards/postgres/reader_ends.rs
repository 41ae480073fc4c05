//! Readers of one lock, of which some have crashed.

use lock_core::ReleaseOptions;

use super::{
    Clients as _, LONG, OnePostgres, Verdict, first_use, granted,
    readers::{SHORT, not_renewed, reader},
    request, words,
};

/// A reader renews after its lease, while another shares the lock.
pub(super) async fn a_late_renewal_beside_another(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let _other = granted(&*store, &reader(LONG)).await?;
    let late = granted(&*store, &reader(SHORT)).await?;
    tokio::time::sleep(2 * SHORT).await;
    not_renewed(stage, &late).await
}

/// A reader joins another, and 1,000 that have crashed.
pub(super) async fn beside_crashed_readers(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let _other = granted(&*store, &reader(LONG)).await?;
    let crashed = "UPDATE leasehold_locks SET readers = readers || \
        (SELECT jsonb_object_agg(lpad(n::text, 32, '0'), 1) FROM generate_series(1, 1000) AS n)";
    stage.server.sql(crashed).await.map_err(words)?;
    granted(&*store, &reader(LONG)).await?;
    let left = "SELECT count(*) FROM leasehold_locks, jsonb_object_keys(readers)";
    match stage.server.sql(left).await.map_err(words)?.as_str() {
        "2" => Ok(()),
        left => Err(format!("{left} readers share the row")),
    }
}

/// The last living reader leaves, and a writer waits.
pub(super) async fn a_release_beside_a_crashed_reader(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let living = granted(&*store, &reader(LONG)).await?;
    let _crashed = granted(&*store, &reader(SHORT)).await?;
    let writer = request("a", LONG);
    let _waiter = stage.open().await.enqueue(&writer).await.map_err(words)?;
    tokio::time::sleep(2 * SHORT).await;
    store.release(&living, ReleaseOptions::default()).await.map_err(words)?;
    let owner = "SELECT owner FROM leasehold_locks";
    let owner = stage.server.sql(owner).await.map_err(words)?;
    match owner == writer.owner.to_string() {
        true => Ok(()),
        false => Err(format!("the release left the lock to {owner:?}, not to the writer")),
    }
}
