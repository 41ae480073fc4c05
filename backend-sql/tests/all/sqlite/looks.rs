//! What waiting for many names costs an SQLite file. Statements are counted by what the driver logs.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::support::looks;
use crate::support::sqlite::BOTH;
use backend_sql::{Strategy, sqlite::SqliteBuilder};
use lock_core::Backend;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// What the names of the tables begin with.
const PREFIX: &str = "looks_of_one";
static STATEMENTS: AtomicU64 = AtomicU64::new(0);

/// Sees what the driver logs: one event for each statement.
struct Counter;

impl Subscriber for Counter {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        of.target() == "sqlx::query"
    }

    fn event(&self, event: &Event<'_>) {
        let mut names = Names(false);
        event.record(&mut names);
        STATEMENTS.fetch_add(u64::from(names.0), Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Whether it names a table of this test, since what is logged is the whole process's.
struct Names(bool);

impl Visit for Names {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        self.0 |= format!("{value:?}").contains(PREFIX);
    }
}

/// A store whose statements are logged.
async fn logged(path: &Path, strategy: Strategy) -> Arc<dyn Backend> {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let pool = SqlitePoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = pool.connect_with(options.journal_mode(SqliteJournalMode::Wal)).await.unwrap();
    SqliteBuilder::with_pool(pool).table_prefix(PREFIX).strategy(strategy).build().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_look_serves_all_names_that_a_client_waits_for() {
    tracing::subscriber::set_global_default(Counter).unwrap();
    for strategy in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let (holder, store) = (logged(&path, strategy).await, logged(&path, strategy).await);
        let count = async || STATEMENTS.load(Ordering::Relaxed);
        looks::many_names(holder, Arc::clone(&store), count).await;
        // The pools have made it for every user.
        for end in ["", "-wal", "-shm"] {
            let file = format!("{}{end}", path.display());
            std::fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
        }
        let holder = SqliteBuilder::new(&path)
            .table_prefix(PREFIX)
            .strategy(strategy)
            .build()
            .await
            .unwrap();
        looks::the_first_goes(holder, store).await;
    }
}
