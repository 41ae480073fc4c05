//! SQLite: a file.

use std::sync::Arc;

use sqlx::SqlitePool;

use super::{fences, made, record_counters};
use crate::proof::{Fault, StartedStore};
use conformance_tests::SetUpError;

pub(super) async fn start(_: Fault) -> Result<StartedStore, SetUpError> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("locks.db");
    let fence = fences::Sqlite::open(&folder.path().join("data.db")).await?;
    let url = format!("sqlite:{}?longest_lease=2s", path.display());
    made(&url).await?;
    let pool = SqlitePool::connect(&format!("sqlite:{}", path.display())).await?;
    Ok(StartedStore {
        fence: Some(Arc::new(fence)),
        counter: Some(Arc::new(record_counters::Sqlite(pool))),
        ..StartedStore::of_clients(url, folder)
    })
}
