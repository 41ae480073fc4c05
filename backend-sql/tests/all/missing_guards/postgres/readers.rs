//! Readers of one lock, of which some have crashed.

use lock_core::ReleaseOptions;
use verification::missing_guards::{
    Verdict,
    cases::{LONG, SHORT, first_use, granted, reader, request, words},
};

use super::{Clients as _, Database as _, OnePostgres};

/// A reader joins another, and 1,000 that have crashed.
pub(super) async fn beside_crashed_readers(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let _other = granted(&*store, &reader(LONG)).await?;
    let crashed = "UPDATE leasehold_locks SET readers = readers || \
        (SELECT jsonb_object_agg(lpad(n::text, 32, '0'), 1) FROM generate_series(1, 1000) AS n)";
    stage.sql(crashed).await?;
    granted(&*store, &reader(LONG)).await?;
    let left = "SELECT count(*) FROM leasehold_locks, jsonb_object_keys(readers)";
    stage.says(left, "2").await
}

/// The last living reader leaves, and a writer waits.
pub(super) async fn a_release_beside_a_crashed_reader(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let living = granted(&*store, &reader(LONG)).await?;
    let _crashed = granted(&*store, &reader(SHORT)).await?;
    let writer = request("a", LONG);
    let _waiter = stage.open().await.enqueue(&writer).await.map_err(words)?;
    tokio::time::sleep(2 * SHORT).await;
    store.release(&living, ReleaseOptions::default()).await.map_err(words)?;
    stage.says("SELECT owner FROM leasehold_locks", &writer.owner.to_string()).await
}
