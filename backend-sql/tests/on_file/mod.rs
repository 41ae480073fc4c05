//! What the tests of SQLite share: stores in a file, requests.
#![allow(dead_code)] // not each file uses everything

use std::{path::Path, sync::Arc, time::Duration};

use backend_sql::{Strategy, sqlite::SqliteBuilder};
use lock_core::{Backend, Request};
use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};

#[path = "../common/mod.rs"]
pub(crate) mod common;
#[allow(unused_imports)]
pub(crate) use common::{BOTH, SECOND, WAIT, change_longest_lease, count, granted};

pub(crate) const LEASE: Duration = Duration::from_secs(10);

pub(crate) fn request(name: &str) -> Request {
    common::request_for(name, LEASE)
}

pub(crate) async fn open(path: &Path, strategy: Strategy) -> Arc<dyn Backend> {
    SqliteBuilder::new(path).strategy(strategy).build().await.unwrap()
}

pub(crate) async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path)).await.unwrap()
}
