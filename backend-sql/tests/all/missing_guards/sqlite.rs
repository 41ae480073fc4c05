//! The guards in the statements of SQLite.

use std::{sync::Arc, time::Duration};

use backend_sql::sqlite::{SqliteFence, connect};
use lock_core::{Backend, Error};
use servers::Change;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};
use verification::{
    cases,
    missing_guards::{
        Clients, Setup, Trial, Verdict,
        cases::{LONG, above, check, first_use, granted, not_granted, reader, request, words},
    },
};

use super::common::{
    Database, a_writer_after_a_reader_that_crashed, ahead, an_entry_behind_itself,
    an_entry_of_another, beside_a_dead_entry, beside_a_writer, of_all, release, stale_write,
    used_once,
};

struct OneFile {
    _folder: tempfile::TempDir,
    path: String,
}

#[async_trait::async_trait]
impl Setup for OneFile {
    const IN_COPIES: Option<&'static str> = Some("missing_guards::sqlite::each_guard_is_missed");

    async fn start(_: &[Change<'_>]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db").display().to_string();
        Self { _folder: folder, path }
    }
}

#[async_trait::async_trait]
impl Clients for OneFile {
    fn url(&self) -> String {
        format!("sqlite:{}", self.path)
    }

    async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
        connect(url).await
    }
}

#[async_trait::async_trait]
impl Database for OneFile {
    const FULL: &'static str = "UPDATE leasehold_locks SET readers = (WITH RECURSIVE n (at) AS \
        (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < 1000) \
        SELECT json_group_object(printf('%032x', at), expires) FROM n)";

    async fn sql(&self, sql: &str) -> Result<String, String> {
        let mut session = SqliteConnection::connect(&self.url()).await.map_err(words)?;
        let answer = sqlx::query_scalar::<_, i64>(AssertSqlSafe(sql));
        let answer = answer.fetch_optional(&mut session).await.map_err(words)?;
        Ok(answer.map(|number| number.to_string()).unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_is_missed() {
    let mut table = of_all();
    table.extend(cases![OneFile:
        a_row_of_another_boot_is_held, a_row_of_another_clock_is_held_while_it_is_renewed,
        a_token_over_a_sweep, a_token_above_the_last(strategy), an_abandoned_owner_of_a_row,
        barging(strategy), a_dead_entry, an_entry_of_another, an_entry_behind_itself,
        a_reader_beside_a_writer_of_a_row, beside_a_reader_of_another_clock,
        a_writer_after_a_reader_that_crashed(how), a_stale_write,
    ]);
    let mut trial = Trial::of(&[concat!(env!("CARGO_MANIFEST_DIR"), "/src/sqlite/sql")]);
    trial.on_clients(table).await;
    trial.end();
}

/// Makes the last heartbeat of every entry old.
async fn a_dead_entry(file: &OneFile) -> Verdict {
    beside_a_dead_entry(file, "UPDATE leasehold_queue SET heard = 1").await
}

/// Makes the row one of another boot. By the clock of this boot, its lease would be long over.
const THEIRS: &str = "UPDATE leasehold_locks SET epoch = 'theirs', expires = 1";

async fn a_row_of_another_boot_is_held(file: &OneFile) -> Verdict {
    granted(&*first_use(file).await, &request("a", LONG)).await?;
    file.sql(THEIRS).await?;
    not_granted(&*file.open().await, &request("a", LONG)).await?;
    // Another client that has not read the row yet, and takes what seems free.
    not_granted(&*file.open().await, &request("a", LONG)).await
}

async fn a_row_of_another_clock_is_held_while_it_is_renewed(file: &OneFile) -> Verdict {
    let lease = Duration::from_millis(300);
    granted(&*first_use(file).await, &request("a", lease)).await?;
    file.sql(THEIRS).await?;
    let store = file.open().await;
    not_granted(&*store, &request("a", LONG)).await?;
    file.sql("UPDATE leasehold_locks SET version = version + 1").await?;
    tokio::time::sleep(2 * lease).await;
    not_granted(&*store, &request("a", LONG)).await
}

/// The clock is a day behind ours.
async fn beside_a_reader_of_another_clock(file: &OneFile) -> Verdict {
    let store = first_use(file).await;
    granted(&*store, &reader(LONG)).await?;
    file.sql(
        "UPDATE leasehold_locks SET epoch = 'theirs', expires = expires - 86400000000000, \
        readers = (SELECT json_group_object(key, value - 86400000000000) FROM json_each(readers))",
    )
    .await?;
    let ours = granted(&*store, &reader(LONG)).await?;
    release(&*store, &ours).await?;
    not_granted(&*store, &request("a", LONG)).await
}

async fn a_token_over_a_sweep(file: &OneFile) -> Verdict {
    let store = first_use(file).await;
    let first = ahead(&*store).await?;
    // A client sweeps once in a thousand releases.
    for number in 0..1_100 {
        used_once(&*store, &request(&format!("busy {number}"), LONG)).await?;
    }
    let rows = file.sql("SELECT count(*) FROM leasehold_locks").await?;
    assert!(rows.parse::<u32>().unwrap() < 1_000, "nothing was swept");
    above(&first, &granted(&*store, &request("a", LONG)).await?)
}

/// A client of this strategy that did not make the file.
async fn open_by(file: &OneFile, strategy: &str) -> Arc<dyn Backend> {
    drop(first_use(file).await);
    connect(&format!("{}?strategy={strategy}", file.url())).await.unwrap()
}

/// The name is taken again by another client, or by the one that released it.
async fn a_token_above_the_last(file: &OneFile, strategy: &str) -> Verdict {
    let store = open_by(file, strategy).await;
    let first = ahead(&*store).await?;
    let next = if strategy == "optimistic" { store } else { file.open().await };
    above(&first, &granted(&*next, &request("a", LONG)).await?)
}

async fn a_reader_beside_a_writer_of_a_row(file: &OneFile) -> Verdict {
    beside_a_writer(&*open_by(file, "optimistic").await).await
}

async fn an_abandoned_owner_of_a_row(file: &OneFile) -> Verdict {
    let store = open_by(file, "optimistic").await;
    let given_up = request("a", LONG);
    store.abandon(&given_up).await.map_err(words)?;
    not_granted(&*store, &given_up).await
}

async fn a_stale_write(file: &OneFile) -> Verdict {
    drop(first_use(file).await);
    stale_write!(SqliteFence, SqliteConnection, file.url()).await
}

/// A lock is free, and a queue entry waits for it.
async fn barging(file: &OneFile, strategy: &str) -> Verdict {
    let store = open_by(file, strategy).await;
    // The client then knows the version of the row, and need not read it before it takes it.
    used_once(&*store, &request("a", LONG)).await?;
    let entry = "INSERT INTO leasehold_queue \
        SELECT name, 1, hex(randomblob(16)), 'guards', 0, NULL, 9000000000000000000, epoch, 0, 0 FROM leasehold_locks";
    file.sql(entry).await?;
    not_granted(&*store, &request("a", LONG)).await
}
