//! The guards in the statements of MySQL.

use std::{sync::Arc, time::Duration};

use backend_sql::mysql::{MysqlFence, connect};
use futures_util::future::try_join_all;
use lock_core::{
    Backend, Enqueued, Env as _, Grant, ReleaseOptions, Renewal, SystemEnv, WriteOutcome,
};
use servers::{
    Change::{self, LeaveOut, Replace},
    Mariadb, MariadbOptions, Proxy, Server as _,
};
use sqlx::{Connection as _, MySqlConnection};
use verification::missing_guards::{
    Clients, MissingGuard, Setup, Verdict,
    cases::{
        LONG, a_batch_with_a_locked_row, above, first_use, granted, not_granted, request, words,
    },
    every_marker_is_tried,
    record_cases::write_of,
    try_all,
};
use verification::variants;

use super::{
    ahead,
    common::{Common, below_the_watermark, without_common_guards},
    entries::{self, enqueue, release, used_once},
    readers, stale_write,
};

struct OneMariadb {
    server: Mariadb,
    proxy: Proxy,
}

impl OneMariadb {
    /// As the driver knows it.
    fn plain(&self) -> String {
        format!("mysql://root@{}/test?ssl-mode=disabled", self.proxy.address())
    }

    fn url(&self) -> String {
        self.plain() + "&timeout=30s"
    }
}

#[async_trait::async_trait]
impl Setup for OneMariadb {
    async fn start(changes: &[Change<'_>]) -> Self {
        let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
        let proxy = Proxy::changing(server.address(), changes).await.unwrap();
        Self { server, proxy }
    }

    fn altered(&self) -> u64 {
        self.proxy.counters().altered
    }
}

#[async_trait::async_trait]
impl Clients for OneMariadb {
    async fn open(&self) -> Arc<dyn Backend> {
        connect(&self.url()).await.unwrap()
    }
}

const FOLDERS: &[&str] = &[concat!(env!("CARGO_MANIFEST_DIR"), "/src/mysql")];

/// The changes for the guards that every database has.
const COMMON: Common = Common {
    held: &[Replace("held", "? <> '' AND")],
    release_owner: &[Replace("release-owner", "AND ? <> ''")],
    renew_expired: &[LeaveOut("renew-expired")],
    abandoned: &[Replace("not-abandoned", "? <> ''")],
    abandon_kept: &[LeaveOut("abandon-kept")],
    join_expires: &[Replace(
        "join-expires",
        "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?",
    )],
    join_others: &[Replace("join-others", "'',")],
    join_above: &[Replace("join-above", "0,")],
    renew_reader: &[Replace("renew-reader", "1 = 1")],
    renew_readers_expired: &[
        LeaveOut("renew-expired"),
        Replace("renew-reader", "LOCATE(g.owner, l.readers) > 0"),
    ],
    join_abandoned: &[Replace("not-abandoned", "? <> ''")],
    join_barging: &[Replace("barging", "= CONCAT(?, '-')")],
    record_owner: &[Replace("record-owner", "AND ? <> ''")],
    record_kept: &[LeaveOut("record-kept")],
    record_expired: &[LeaveOut("record-expired")],
    record_number: &[Replace("record-number", "AND ? IS NULL")],
    // Another client may have written the record between the two statements.
    record_time: &[LeaveOut("record-over"), LeaveOut("record-time")],
};

variants! {
    VARIANTS |stage: OneMariadb|
    "S2: a name that is not there gets a token above the watermark"
        Replace("watermark", "AND watermark < ? * 0") => below_the_watermark(stage, stage.server.sql(LEAD));
    "S2: a row whose token was never checked is checked by its next holder"
        Replace("take-checked", "AND (? = 2 OR kept <> 3)") => an_unchecked_row(stage);
    "S1: exclusion is promised by what the server flushes" LeaveOut("durability") => a_server_that_flushes_seldom(stage);
    "S2: a sweep raises the watermark first"
        Replace("sweep-raises", "watermark = watermark + ? * 0") => a_token_over_a_sweep(stage);
    "S4: only the owner hands a lock on" Replace("hand-on-owner", "AND ? <> ''") => a_handover_by_another(stage);
    "S4: what was released, and is kept, is not handed on" LeaveOut("hand-on-kept") => a_second_release(stage);
    "S5: what has ended is not handed on" LeaveOut("hand-on-expired") => a_late_handover(stage);
    "S5: a batch of renewals is answered by the clock that it was made by"
        Replace("renewed-clock", "AND l.expires >= 0 * ?") => a_late_renewal_among_others(stage);
    "L5: a renewal does not wait for a row that another transaction has"
        Replace("renew-skips", "FOR UPDATE") => a_batch_with_a_locked_row(stage, a_locked_row(stage));
    "L3: nobody barges past a live entry" Replace("barging", "= CONCAT(?, '-')") => barging(stage);
    "L3: an entry without a heartbeat is passed over"
        LeaveOut("entry-alive") => entries::a_dead_entry(stage, stage.server.sql(SILENCE));
    "L3: an entry from before the clock was set back is passed over"
        LeaveOut("entry-future") => entries::a_dead_entry(stage, stage.server.sql(FUTURE));
    "L3: a heartbeat does not wait for an entry that another transaction has"
        Replace("heartbeat-skips", "FOR UPDATE") => a_heartbeat_beside_a_locked_entry(stage);
    "L4: a sweep does not wait for a row that another transaction has"
        Replace("sweep-skips", "FOR UPDATE") => a_sweep_beside_a_locked_row(stage);
    "L3: a waiter that leaves removes no other entry"
        Replace("leave-owner", "AND ? <> ''") => entries::an_entry_of_another(stage);
    "S6: an abandoned owner gets no entry"
        Replace("enter-abandoned", "heard = ABS(heard)") => entries::an_entry_of_an_abandoned_owner(stage);
    "S6: a heartbeat for all entries of a client brings no abandoned owner back"
        Replace("heartbeat-abandoned", "1 = 1") => an_entry_brought_back(stage);
    "S1: readers join no writer" LeaveOut("join-readers") => readers::beside_a_writer(first_use(stage));
    "S1: no more readers join than may"
        Replace("join-most", "1 = 1") => readers::beside_the_most(stage, stage.server.sql(FULL));
    "S5: a reader whose lease has ended renews nothing while others live"
        Replace("renew-reader", "LOCATE(g.owner, l.readers) > 0") => readers::a_late_renewal_beside_another(stage);
    "S5: a batch of readers is answered by the end of each lease"
        Replace("renewed-reader", "LOCATE(g.owner, l.readers) > ? * 0") => readers::a_late_renewal_beside_another(stage);
    "S4: a reader whose lease has ended releases nothing"
        Replace("reader-ended", "LOCATE(?, readers) > 0") => readers::a_late_release_beside_another(stage);
    "S7: no other holder comes between the check and the write"
        LeaveOut("record-locks") => a_write_beside_a_takeover(stage);
    "S2: the fence refuses a lower token"
        Replace("fence", "token = LAST_INSERT_ID(GREATEST(?, 0))")
        => stale_write!(MysqlFence, MySqlConnection, stage.plain());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_misses_its_guards() {
    let common = without_common_guards::<OneMariadb>(&COMMON);
    try_all(FOLDERS, &common).await;
    try_all(FOLDERS, VARIANTS).await;
    every_marker_is_tried(
        FOLDERS,
        &[MissingGuard::names(&common), MissingGuard::names(VARIANTS)].concat(),
    );
}

/// Another transaction gives the lock to somebody else, and has not committed yet.
async fn a_write_beside_a_takeover(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let mut taking = a_locked_row(stage).await?;
    let takes = "UPDATE leasehold_locks SET owner = REPEAT('1', 32) WHERE name = 'a'";
    sqlx::query(takes).execute(&mut taking).await.map_err(words)?;
    let writing = tokio::spawn(async move { store.write_record(&grant, &write_of(1)).await });
    let waits = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    while stage.server.sql(waits).await.map_err(words)? == "0" && !writing.is_finished() {
        // What this table shows is only renewed when nobody has read it for 100 ms.
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    sqlx::query("COMMIT").execute(&mut taking).await.map_err(words)?;
    match writing.await.map_err(words)?.map_err(words)? {
        WriteOutcome::NotHeld => Ok(()),
        WriteOutcome::Written => Err("a former holder wrote the record".to_owned()),
    }
}

async fn a_server_that_flushes_seldom(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    if !store.guarantees().exclusion.holds() {
        return Err("a server that flushes each commit is not believed".to_owned());
    }
    let seldom = "SET GLOBAL innodb_flush_log_at_trx_commit = 2";
    stage.server.sql(seldom).await.map_err(words)?;
    match stage.open().await.guarantees().exclusion.holds() {
        true => Err("exclusion is promised, and a crash may lose what is held".to_owned()),
        false => Ok(()),
    }
}

/// A release that takes the next request along must not get it the lock.
async fn hands_nothing_on(store: &dyn Backend, grant: &Grant) -> Verdict {
    let next = request("a", LONG);
    let released = store.release(grant, ReleaseOptions::new().with_next(&next)).await;
    match released.map_err(words)?.next {
        Some(Enqueued::Granted(grant)) => Err(format!("handed on, with {}", grant.token)),
        _ => Ok(()),
    }
}

async fn a_handover_by_another(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let mut other = granted(&*store, &request("a", LONG)).await?;
    other.owner = request("a", LONG).owner;
    hands_nothing_on(&*store, &other).await
}

async fn a_second_release(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    store.release(&grant, ReleaseOptions::new().with_keep(LONG)).await.map_err(words)?;
    hands_nothing_on(&*store, &grant).await
}

async fn a_late_handover(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", Duration::from_millis(300))).await?;
    tokio::time::sleep(Duration::from_millis(600)).await;
    hands_nothing_on(&*store, &grant).await
}

async fn a_late_renewal_among_others(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let late = granted(&*store, &request("a", Duration::from_millis(300))).await?;
    let held = granted(&*store, &request("b", LONG)).await?;
    tokio::time::sleep(Duration::from_millis(600)).await;
    loop {
        let answers = store.renew(&[&late, &held], SystemEnv.now()).await;
        match answers[..] {
            [Renewal::Lost(_), Renewal::Renewed { .. }] => return Ok(()),
            // A busy machine did not read it in time.
            [Renewal::Unknown(_), _] => {}
            _ => return Err(format!("one of two was too late: {answers:?}")),
        }
    }
}

/// A transaction that has the row of `a`.
async fn a_locked_row(stage: &OneMariadb) -> Result<MySqlConnection, String> {
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", stage.server.address());
    let mut session = MySqlConnection::connect(&url).await.map_err(words)?;
    let lock = "BEGIN; SELECT * FROM leasehold_locks WHERE name = 'a' FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut session).await.map_err(words)?;
    Ok(session)
}

/// Fills the lock with the maximum number of readers.
const FULL: &str = "UPDATE leasehold_locks SET readers = REPEAT('0123456789abcdef0123456789abcdef-9999999999999999,', 1000)";

/// Makes the last heartbeat of every entry old.
const SILENCE: &str = "UPDATE leasehold_queue SET heard = 1";

/// Makes every entry one of a clock that was ahead.
const FUTURE: &str = "UPDATE leasehold_queue SET heard = heard + 3600000000";

/// Makes the watermark lead the clock, and reads it.
const LEAD: &str = "UPDATE leasehold_settings \
    SET watermark = ROUND(UNIX_TIMESTAMP(NOW(6)) * 1000000) + 25000000; \
    SELECT watermark FROM leasehold_settings";

/// A client that has held the lock takes the row anew, which another one has made and left without
/// a check.
async fn an_unchecked_row(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    used_once(&*store, &request("a", LONG)).await?;
    let watermark: u64 = stage.server.sql(LEAD).await.map_err(words)?.parse().map_err(words)?;
    let left = "UPDATE leasehold_locks SET token = 1, kept = 2 WHERE name = 'a'";
    stage.server.sql(left).await.map_err(words)?;
    let grant = granted(&*store, &request("a", LONG)).await?;
    match grant.token.get() > watermark {
        true => Ok(()),
        false => Err(format!("token {} came after the watermark {watermark}", grant.token)),
    }
}

async fn a_token_over_a_sweep(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let first = ahead(&*store).await?;
    // A client sweeps once in a thousand releases.
    cause_a_sweep(&*store).await?;
    until_swept(stage, "a").await?;
    above(&first, &granted(&*store, &request("a", LONG)).await?)
}

/// A client sweeps once in a thousand releases.
async fn cause_a_sweep(store: &dyn Backend) -> Verdict {
    let busy = ["busy 1", "busy 2", "busy 3", "busy 4"].map(async |name| -> Verdict {
        for _ in 0..251 {
            used_once(store, &request(name, LONG)).await?;
        }
        Ok(())
    });
    try_join_all(busy).await.map(drop)
}

/// Waits until the row of a name is gone, or a statement waits for a row that another transaction
/// has.
async fn until_swept(stage: &OneMariadb, name: &str) -> Verdict {
    let gone = format!("SELECT COUNT(*) FROM leasehold_locks WHERE name = '{name}'");
    until_one_of(stage, &gone, "0").await
}

/// Waits until a query has this answer; an error if a statement waits for a row that another
/// transaction has.
async fn until_one_of(stage: &OneMariadb, query: &str, answer: &str) -> Verdict {
    const WAITS: &str =
        "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    loop {
        if stage.server.sql(query).await.map_err(words)? == answer {
            return Ok(());
        }
        if stage.server.sql(WAITS).await.map_err(words)? != "0" {
            return Err("it waits for a row that another transaction has".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn a_sweep_beside_a_locked_row(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    used_once(&*store, &request("a", LONG)).await?;
    used_once(&*store, &request("b", LONG)).await?;
    let _locked = a_locked_row(stage).await?;
    cause_a_sweep(&*store).await?;
    until_swept(stage, "b").await
}

/// One statement sends the heartbeats of both entries.
async fn a_heartbeat_beside_a_locked_entry(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let _held = [
        granted(&*store, &request("a", LONG)).await?,
        granted(&*store, &request("b", LONG)).await?,
    ];
    let (first, second) = (request("a", LONG), request("b", LONG));
    let _waiters = (enqueue(&*store, &first).await?, enqueue(&*store, &second).await?);
    let entered = stage.server.sql("SELECT heard FROM leasehold_queue WHERE name = 'b'").await;
    let entered = entered.map_err(words)?;
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", stage.server.address());
    let mut session = MySqlConnection::connect(&url).await.map_err(words)?;
    let lock = "BEGIN; SELECT * FROM leasehold_queue WHERE name = 'a' FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut session).await.map_err(words)?;
    // The polls of the second send it, when it is due.
    let polls = async {
        loop {
            not_granted(&*store, &second).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let heard = format!("SELECT heard > {entered} FROM leasehold_queue WHERE name = 'b'");
    tokio::select! {
        failed = polls => failed,
        heard = until_one_of(stage, &heard, "1") => heard,
    }
}

/// The first of two entries, and no other, may take a free lock.
async fn barging(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let (first, second) = (request("a", LONG), request("a", LONG));
    let _waiters = (enqueue(&*store, &first).await?, enqueue(&*store, &second).await?);
    release(&*store, &held).await?;
    // By clients that have not read the row yet.
    not_granted(&*stage.open().await, &request("a", LONG)).await?;
    not_granted(&*stage.open().await, &second).await?;
    granted(&*store, &first).await.map(drop)
}

async fn an_entry_brought_back(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    granted(&*store, &request("b", LONG)).await?;
    let (given_up, other) = (request("a", LONG), request("b", LONG));
    let _waiters = (enqueue(&*store, &given_up).await?, enqueue(&*store, &other).await?);
    store.abandon(&given_up).await.map_err(words)?;
    let heard = "SELECT heard FROM leasehold_queue WHERE name = 'b'";
    let entered = stage.server.sql(heard).await.map_err(words)?;
    // Until its poll sends a heartbeat.
    while stage.server.sql(heard).await.map_err(words)? == entered {
        not_granted(&*store, &other).await?;
    }
    release(&*store, &held).await?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}
