//! SQLite: a file.

use std::sync::Arc;

use sqlx::SqlitePool;

use super::{census, fences, made};
use crate::{
    SetUpError,
    proof::{Fault, Stage},
};

pub(super) async fn start(_: Fault) -> Result<Stage, SetUpError> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("locks.db");
    let fence = fences::Sqlite::open(&folder.path().join("data.db")).await?;
    let url = format!("sqlite:{}?longest_lease=2s", path.display());
    made(&url).await?;
    let pool = SqlitePool::connect(&format!("sqlite:{}", path.display())).await?;
    Ok(Stage {
        fence: Some(Arc::new(fence)),
        census: Some(Arc::new(census::Sqlite(pool))),
        ..Stage::of_clients(url, folder)
    })
}
