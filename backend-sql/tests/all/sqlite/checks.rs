//! How many statements a wait for many names needs in SQLite. They are counted by the driver's log.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::support::{
    BOTH, LEASE, WAIT,
    checks::{self, NAMES, wait_for},
    granted, request_for,
    sqlite::{file, open, raw},
};
use backend_sql::{Strategy, sqlite::SqliteBuilder};
use lock_core::{Backend, ReleaseOptions};
use sqlx::{
    AssertSqlSafe,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions},
};
use tokio::time::timeout;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// The prefix of the tables.
const PREFIX: &str = "checks_of_one";
static STATEMENTS: AtomicU64 = AtomicU64::new(0);

/// Counts what the driver logs: one event for each statement.
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

/// Whether an event names a table of this test. The log is that of the whole process.
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

/// One client waits for many names that another client holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_takes_no_statement() {
    tracing::subscriber::set_global_default(Counter).unwrap();
    for strategy in BOTH {
        let (_folder, path) = file();
        let (holder, store) = (logged(&path, strategy).await, logged(&path, strategy).await);
        let names: Vec<_> = (0..NAMES).map(|at| format!("it's \"{at}\" schloß")).collect();
        let mut held = Vec::new();
        for name in &names {
            held.push(granted(&holder, &request_for(name, LEASE)).await);
        }
        let before = STATEMENTS.load(Ordering::Relaxed);
        let mut waiting = wait_for(&store, &names).await;
        assert!(STATEMENTS.load(Ordering::Relaxed) > before, "nothing is counted");
        let before = STATEMENTS.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(STATEMENTS.load(Ordering::Relaxed), before, "statements while nothing happens");
        assert!(waiting.try_join_next().is_none(), "somebody was woken for a name that is held");
        // Makes all heartbeats fresh, however long it took to enter them.
        let mut file = raw(&path).await;
        let heard = format!("UPDATE {PREFIX}_queue SET heard = heard + 3600000000000");
        sqlx::query(AssertSqlSafe(heard)).execute(&mut file).await.unwrap();
        for at in [0, NAMES / 2, NAMES - 1] {
            holder.release(&held[at], ReleaseOptions::default()).await.unwrap();
            let woken = timeout(WAIT, waiting.join_next()).await.unwrap().unwrap().unwrap();
            assert_eq!(woken.name, held[at].name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_served_when_those_before_it_have_gone() {
    for strategy in BOTH {
        let (_folder, path) = file();
        checks::the_first_goes(open(&path, strategy).await, open(&path, strategy).await).await;
    }
}
