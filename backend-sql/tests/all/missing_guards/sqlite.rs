//! The guards in the statements of SQLite.

use std::{sync::Arc, time::Duration};

use backend_sql::sqlite::{SqliteFence, connect};
use lock_core::{Backend, Env as _, SystemEnv};
use servers::Change::{self, LeaveOut, Replace};
use sqlx::{Connection as _, SqliteConnection};
use verification::missing_guards::{
    Clients, MissingGuard, Setup, Verdict,
    cases::{
        LONG, a_renewal_above_the_longest_lease, above, first_use, granted, not_granted, request,
        words,
    },
    every_marker_is_tried, try_all_in_copies,
};
use verification::variants;

use super::{
    ahead,
    common::{Common, without_common_guards},
    entries, readers, stale_write,
};

struct OneFile {
    _folder: tempfile::TempDir,
    path: String,
}

impl OneFile {
    fn url(&self) -> String {
        format!("sqlite:{}", self.path)
    }

    async fn run(&self, sql: &'static str) -> Verdict {
        let mut session = SqliteConnection::connect(&self.url()).await.map_err(words)?;
        sqlx::query(sql).execute(&mut session).await.map(drop).map_err(words)
    }
}

#[async_trait::async_trait]
impl Setup for OneFile {
    async fn start(_: &[Change<'_>]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db").display().to_string();
        Self { _folder: folder, path }
    }

    fn altered(&self) -> u64 {
        0
    }
}

#[async_trait::async_trait]
impl Clients for OneFile {
    async fn open(&self) -> Arc<dyn Backend> {
        connect(&self.url()).await.unwrap()
    }
}

const FOLDERS: &[&str] = &[concat!(env!("CARGO_MANIFEST_DIR"), "/src/sqlite")];

/// The changes for the guards that every database has.
const COMMON: Common = Common {
    held: &[LeaveOut("held")],
    release_owner: &[LeaveOut("release-owner")],
    renew_expired: &[LeaveOut("renew-expired")],
    abandoned: &[LeaveOut("abandoned")],
    abandon_kept: &[LeaveOut("abandon-kept")],
    join_expires: &[Replace("join-expires", "$now + $lease, $lease")],
    join_others: &[LeaveOut("join-others")],
    join_above: &[Replace("join-above", "ELSE max(?7, ?8)")],
    renew_reader: &[LeaveOut("renew-reader"), LeaveOut("renew-any")],
    renew_readers_expired: &[LeaveOut("living")],
    join_abandoned: &[LeaveOut("join-abandoned")],
    join_barging: &[LeaveOut("join-barging")],
    record_owner: &[Replace("record-owner", "AND ?2 <> ''")],
    record_kept: &[LeaveOut("record-kept")],
    record_expired: &[Replace("record-expired", "AND ?4 <> ?3")],
    record_number: &[Replace("record-number", "AND false")],
    record_time: &[Replace("record-time", "WHERE ?1 > 0")],
};

variants! {
    VARIANTS |file: OneFile|
    "S1: a row of another boot counts as held" LeaveOut("epoch") => a_row_of_another_boot_is_held(file);
    "S1: a row of another boot counts as held for its full lease from when it is seen"
        LeaveOut("seen-for-a-lease") => a_row_of_another_boot_is_held(file);
    "S1: a row of another clock that was renewed is seen anew"
        LeaveOut("seen-version") => a_row_of_another_clock_is_held_while_it_is_renewed(file);
    "S2: a name that is not there gets a token above the watermark" LeaveOut("watermark") => a_token_over_a_sweep(file);
    "S2: a sweep raises the watermark, and forgets only tokens that it covers"
        Replace("sweep-raises", "SET watermark = min(watermark, ("), LeaveOut("sweep-covered")
        => a_token_over_a_sweep(file);
    "S2: the token of a free name is above its last"
        Replace("token-above", "ELSE max(?7, ?8)") => a_token_above_the_last(file, "primary-key");
    "S2: so where this client left the name behind"
        Replace("take-token", "token = max(?7, ?8),") => a_token_above_the_last(file, "optimistic");
    "S1: a renewal keeps the longest lease of now" LeaveOut("renew-longest") => a_renewal_above_the_longest_lease(file);
    "S6: also if the row was read before" LeaveOut("take-abandoned") => an_abandoned_owner_of_a_row(file);
    "L3: nobody barges past a live entry" LeaveOut("barging") => barging(file, "primary-key");
    "L3: also if the row was read before" LeaveOut("take-barging") => barging(file, "optimistic");
    "L3: a release serves the first entry" Replace("pass-first", "-q.position") => entries::order_of_entries(file);
    "L3: an entry without a heartbeat is passed over"
        Replace("entry-alive", "true") => entries::a_dead_entry(file, file.run(SILENCE));
    "L3: a waiter that leaves removes no other entry" LeaveOut("leave-owner") => entries::an_entry_of_another(file);
    "S6: an abandoned owner gets no entry" LeaveOut("enter-abandoned") => entries::an_entry_of_an_abandoned_owner(file);
    "S6: a holder that asks again gets no entry behind itself"
        LeaveOut("enter-holds") => entries::an_entry_behind_itself(file);
    "S2: a lock that is given away gets a token above its last"
        Replace("pass-token", "ELSE l.token") => entries::a_token_that_is_passed(file);
    "S6: a release gives nothing to an abandoned owner that it takes along"
        LeaveOut("pass-abandoned") => entries::an_abandoned_owner_that_a_release_carries(file);
    "S1: readers join no writer" LeaveOut("held-alone") => readers::beside_a_writer(open_by(file, "primary-key"));
    "S1: also if the row was read before" LeaveOut("take-alone") => readers::beside_a_writer(open_by(file, "optimistic"));
    "S1: no more readers join than may" LeaveOut("join-most") => readers::beside_the_most(file, file.run(FULL));
    "S1: readers of another clock keep what was left of their leases"
        Replace("reached", "WHEN false THEN 0") => beside_a_reader_of_another_clock(file);
    "L1: the lock ends with the latest lease of the readers that are left"
        Replace("part-expires", "l.expires, l.lease") => a_writer_after_a_reader_that_crashed(file, false);
    "L1: a renewal prolongs no other reader's lease"
        Replace("renew-own", "$now + 10000000000) AS ends") => a_writer_after_a_reader_that_crashed(file, true);
    "S2: the fence refuses a lower token" LeaveOut("fence") => a_stale_write(file);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_misses_the_common_guards() {
    let test = "missing_guards::sqlite::sqlite_misses_the_common_guards";
    try_all_in_copies(FOLDERS, &without_common_guards::<OneFile>(&COMMON), test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_misses_its_guards() {
    try_all_in_copies(FOLDERS, VARIANTS, "missing_guards::sqlite::sqlite_misses_its_guards").await;
    let common = without_common_guards::<OneFile>(&COMMON);
    every_marker_is_tried(
        FOLDERS,
        &[MissingGuard::names(&common), MissingGuard::names(VARIANTS)].concat(),
    );
}

/// Fills the lock with the maximum number of readers.
const FULL: &str = "UPDATE leasehold_locks SET readers = (WITH RECURSIVE n (at) AS \
    (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < 1000) SELECT json_group_object(printf('%032x', at), expires) FROM n)";

/// Makes the last heartbeat of every entry old.
const SILENCE: &str = "UPDATE leasehold_queue SET heard = 1";

/// Makes the row one of another boot. By the clock of this boot, its lease would be long over.
const THEIRS: &str = "UPDATE leasehold_locks SET epoch = 'theirs', expires = 1";

async fn a_row_of_another_boot_is_held(file: &OneFile) -> Verdict {
    granted(&*first_use(file).await, &request("a", LONG)).await?;
    file.run(THEIRS).await?;
    not_granted(&*file.open().await, &request("a", LONG)).await?;
    // Another client that has not read the row yet, and takes what seems free.
    not_granted(&*file.open().await, &request("a", LONG)).await
}

async fn a_row_of_another_clock_is_held_while_it_is_renewed(file: &OneFile) -> Verdict {
    let lease = Duration::from_millis(300);
    granted(&*first_use(file).await, &request("a", lease)).await?;
    file.run(THEIRS).await?;
    let store = file.open().await;
    not_granted(&*store, &request("a", LONG)).await?;
    file.run("UPDATE leasehold_locks SET version = version + 1").await?;
    tokio::time::sleep(2 * lease).await;
    not_granted(&*store, &request("a", LONG)).await
}

/// The clock is a day behind ours.
async fn beside_a_reader_of_another_clock(file: &OneFile) -> Verdict {
    let store = first_use(file).await;
    granted(&*store, &readers::reader(LONG)).await?;
    file.run(
        "UPDATE leasehold_locks SET epoch = 'theirs', expires = expires - 86400000000000, \
        readers = (SELECT json_group_object(key, value - 86400000000000) FROM json_each(readers))",
    )
    .await?;
    let ours = granted(&*store, &readers::reader(LONG)).await?;
    entries::release(&*store, &ours).await?;
    not_granted(&*store, &request("a", LONG)).await
}

/// A reader with a long lease, which may have renewed, leaves one that has crashed.
async fn a_writer_after_a_reader_that_crashed(file: &OneFile, renews: bool) -> Verdict {
    let store = first_use(file).await;
    let long = granted(&*store, &readers::reader(LONG)).await?;
    granted(&*store, &readers::reader(readers::SHORT)).await?;
    if renews {
        store.renew(&[&long], SystemEnv.now()).await;
    }
    entries::release(&*store, &long).await?;
    tokio::time::sleep(2 * readers::SHORT).await;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

async fn a_token_over_a_sweep(file: &OneFile) -> Verdict {
    let store = first_use(file).await;
    let first = ahead(&*store).await?;
    // A client sweeps once in a thousand releases.
    for number in 0..1_100 {
        entries::used_once(&*store, &request(&format!("busy {number}"), LONG)).await?;
    }
    let mut session = SqliteConnection::connect(&file.url()).await.map_err(words)?;
    let rows = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM leasehold_locks");
    let rows = rows.fetch_one(&mut session).await.map_err(words)?;
    assert!(rows < 1_000, "nothing was swept");
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
    entries::used_once(&*store, &request("a", LONG)).await?;
    let entry = "INSERT INTO leasehold_queue \
        SELECT name, 1, hex(randomblob(16)), 'guards', 0, NULL, 9000000000000000000, epoch, 0, 0 FROM leasehold_locks";
    file.run(entry).await?;
    not_granted(&*store, &request("a", LONG)).await
}
