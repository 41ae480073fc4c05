//! What the tests of SQLite share.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use backend_sql::{Strategy, sqlite::SqliteBuilder};
use lock_core::{Backend, Request};
use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

pub(crate) use super::{BOTH, assert_renewed, busy, used_once};

pub(crate) const LEASE: Duration = Duration::from_secs(10);

pub(crate) fn request(name: &str) -> Request {
    super::request_for(name, LEASE)
}

/// A folder for a file, and the file's path.
pub(crate) fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    (folder, path)
}

pub(crate) async fn open(path: &Path, strategy: Strategy) -> Arc<dyn Backend> {
    SqliteBuilder::new(path).strategy(strategy).build().await.unwrap()
}

pub(crate) async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path)).await.unwrap()
}
