//! The guards in the statements of MySQL.

use std::{sync::Arc, time::Duration};

use backend_sql::mysql::{MysqlFence, connect};
use futures_util::future::try_join_all;
use lock_core::{
    Backend, Enqueued, Env as _, Error, FencingToken, ReleaseOptions, ReleaseOutcome, Renewal,
    Request, SystemEnv, WriteOutcome,
};
use servers::{Change, Mariadb, MariadbOptions, Proxy, Server as _};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};
use verification::{
    cases,
    missing_guards::{
        Clients, Setup, Trial, Verdict,
        cases::{
            LONG, SHORT, a_batch_with_a_locked_row, above as increases, check, enqueue, first_use,
            granted, not_granted, reader, request, words,
        },
        record_cases::write_of,
    },
};

use super::common::{
    Database, LATE, a_late_renewal_beside_another, a_writer_after_a_reader_that_crashed, above,
    ahead, an_entry_of_another, below_a_watermark, beside_a_dead_entry, of_all, release,
    stale_write, used_once,
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
    fn url(&self) -> String {
        self.plain() + "&timeout=30s"
    }

    async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
        connect(url).await
    }
}

#[async_trait::async_trait]
impl Database for OneMariadb {
    const FULL: &'static str = "UPDATE leasehold_locks SET \
        readers = REPEAT('0123456789abcdef0123456789abcdef-9999999999999999,', 1000)";

    async fn sql(&self, sql: &str) -> Result<String, String> {
        self.server.sql(sql).await.map_err(words)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_is_missed() {
    let mut table = of_all();
    table.extend(cases![OneMariadb:
        below_the_watermark, an_unchecked_row, a_server_that_flushes_seldom, a_token_over_a_sweep,
        a_handoff(what), a_handoff_to_a_waiter(which), a_token_of_a_handoff(which), a_late_renewal_among_others, a_batch_beside_a_locked_row,
        a_dead_entry(heard), a_heartbeat_beside_a_locked_entry, a_sweep_beside_a_locked_row,
        an_entry_of_another, an_entry_brought_back, a_late_renewal_beside_another,
        a_late_release_beside_another, a_writer_after_a_reader_that_crashed(how),
        a_write_beside_a_takeover, a_stale_write,
    ]);
    let mut trial = Trial::of(&[concat!(env!("CARGO_MANIFEST_DIR"), "/src/mysql/sql")]);
    trial.on_clients(table).await;
    trial.end();
}

async fn a_server_that_flushes_seldom(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    if !store.guarantees().exclusion.holds() {
        return Err("a server that flushes each commit is not believed".to_owned());
    }
    let seldom = "SET GLOBAL innodb_flush_log_at_trx_commit = 2";
    stage.sql(seldom).await?;
    let promised = stage.open().await.guarantees().exclusion.holds();
    check(!promised, || "exclusion is promised, and a crash may lose what is held".to_owned())
}

/// A release that takes the next request along must not get it the lock.
async fn a_handoff(stage: &OneMariadb, what: &str) -> Verdict {
    let store = first_use(stage).await;
    let lease = if what == "too late" { SHORT } else { LONG };
    let mut grant = granted(&*store, &request("a", lease)).await?;
    match what {
        "by another" => grant.owner = request("a", LONG).owner,
        "too late" => tokio::time::sleep(2 * SHORT).await,
        _ => {
            let keep = ReleaseOptions::new().with_keep(LONG);
            store.release(&grant, keep).await.map_err(words)?;
        }
    }
    let next = request("a", LONG);
    let released = store.release(&grant, ReleaseOptions::new().with_next(&next)).await;
    let next = released.map_err(words)?.next;
    check(!matches!(next, Some(Enqueued::Granted(_))), || format!("handed on: {next:?}"))
}

/// A release by a client that knows of two waiters. One column of the row may be changed before.
async fn handed_over(
    stage: &OneMariadb,
    changed: &str,
    waiters: &[Request; 2],
) -> Result<ReleaseOutcome, String> {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let [first, second] = waiters;
    let _waiters = (enqueue(&*store, first).await?, enqueue(&*store, second).await?);
    // On a slow machine, too, no entry counts as dead.
    let alive = "UPDATE leasehold_queue SET heard = UNIX_TIMESTAMP(NOW(6)) * 1000000 + 3000000";
    stage.sql(&format!("{alive}; UPDATE leasehold_locks SET {changed}")).await?;
    let released = store.release(&grant, ReleaseOptions::new()).await.map_err(words)?;
    Ok(released.outcome)
}

async fn a_handoff_to_a_waiter(stage: &OneMariadb, which: &str) -> Verdict {
    let waiters = [request("a", LONG), request("a", LONG)];
    let [first, second] = [&waiters[0], &waiters[1]].map(|waiter| waiter.owner.to_string());
    let (changed, expected) = match which {
        "of another" => ("owner = REPEAT('1', 32)".to_owned(), None),
        "too late" => ("expires = 1".to_owned(), None),
        "to an abandoned one" => (format!("buried = '{first}'"), Some(second)),
        _ => ("kept = 0".to_owned(), Some(first)),
    };
    let outcome = handed_over(stage, &changed, &waiters).await?;
    let owner = stage.sql("SELECT owner FROM leasehold_locks").await?;
    let right = match expected {
        Some(expected) => owner == expected,
        None => outcome == ReleaseOutcome::NotHeld,
    };
    check(right, || format!("{outcome:?}, and {owner} has the lock"))
}

/// The token is above the floor of the waiter, or above that of the holder.
async fn a_token_of_a_handoff(stage: &OneMariadb, above_what: &str) -> Verdict {
    let mut waiters = [request("a", LONG), request("a", LONG)];
    let ahead = SystemEnv.wall_micros() + 20_000_000;
    let changed = match above_what {
        "floor" => {
            waiters[0].floor = FencingToken::new(ahead).unwrap();
            "kept = 0".to_owned()
        }
        _ => format!("token = {ahead}"),
    };
    handed_over(stage, &changed, &waiters).await?;
    let token = stage.sql("SELECT token FROM leasehold_locks").await?;
    check(token > ahead.to_string(), || format!("{token} is not above {ahead}"))
}

async fn a_late_release_beside_another(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let late = granted(&*store, &reader(LATE)).await?;
    granted(&*store, &reader(LONG)).await?;
    tokio::time::sleep(LATE + SHORT).await;
    let outcome = store.release(&late, ReleaseOptions::new()).await.map_err(words)?.outcome;
    check(outcome == ReleaseOutcome::NotHeld, || format!("an ended lease: {outcome:?}"))
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

/// A transaction that has the row of `a` in this table.
async fn a_locked_row(stage: &OneMariadb, table: &str) -> Result<MySqlConnection, String> {
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", stage.server.address());
    let mut session = MySqlConnection::connect(&url).await.map_err(words)?;
    let lock = format!("BEGIN; SELECT * FROM leasehold_{table} WHERE name = 'a' FOR UPDATE");
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut session).await.map_err(words)?;
    Ok(session)
}

async fn a_batch_beside_a_locked_row(stage: &OneMariadb) -> Verdict {
    a_batch_with_a_locked_row(stage, a_locked_row(stage, "locks")).await
}

/// The last heartbeat of every entry is old, or one by a clock that was ahead.
async fn a_dead_entry(stage: &OneMariadb, heard: &str) -> Verdict {
    let heard = if heard == "old" { "1" } else { "heard + 3600000000" };
    beside_a_dead_entry(stage, &format!("UPDATE leasehold_queue SET heard = {heard}")).await
}

async fn a_stale_write(stage: &OneMariadb) -> Verdict {
    stale_write!(MysqlFence, MySqlConnection, stage.plain()).await
}

/// Makes the watermark lead the clock, and reads it.
const LEAD: &str = "UPDATE leasehold_settings \
    SET watermark = ROUND(UNIX_TIMESTAMP(NOW(6)) * 1000000) + 25000000; \
    SELECT watermark FROM leasehold_settings";

async fn below_the_watermark(stage: &OneMariadb) -> Verdict {
    below_a_watermark(stage, LEAD).await
}

/// A client that has held the lock takes the row anew, which another one has made and left without
/// a check.
async fn an_unchecked_row(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    used_once(&*store, &request("a", LONG)).await?;
    let watermark: u64 = stage.sql(LEAD).await?.parse().map_err(words)?;
    let left = "UPDATE leasehold_locks SET token = 1, kept = 2 WHERE name = 'a'";
    stage.sql(left).await?;
    above(&granted(&*store, &request("a", LONG)).await?, watermark)
}

async fn a_token_over_a_sweep(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let first = ahead(&*store).await?;
    // A client sweeps once in a thousand releases.
    cause_a_sweep(&*store).await?;
    until_swept(stage, "a").await?;
    increases(&first, &granted(&*store, &request("a", LONG)).await?)
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
    loop {
        if stage.sql(query).await? == answer {
            return Ok(());
        }
        if waits_for_a_row(stage).await? {
            return Err("it waits for a row that another transaction has".to_owned());
        }
    }
}

/// Whether a statement waits for a row that another transaction has.
async fn waits_for_a_row(stage: &OneMariadb) -> Result<bool, String> {
    // What this table shows is only renewed when nobody has read it for 100 ms.
    tokio::time::sleep(Duration::from_millis(120)).await;
    let waits = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    Ok(stage.sql(waits).await? != "0")
}

/// Another transaction gives the lock to somebody else, and has not committed yet.
async fn a_write_beside_a_takeover(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let mut taking = a_locked_row(stage, "locks").await?;
    let takes = "UPDATE leasehold_locks SET owner = REPEAT('1', 32) WHERE name = 'a'";
    sqlx::query(takes).execute(&mut taking).await.map_err(words)?;
    let writing = tokio::spawn(async move { store.write_record(&grant, &write_of(1)).await });
    while !writing.is_finished() && !waits_for_a_row(stage).await? {}
    sqlx::query("COMMIT").execute(&mut taking).await.map_err(words)?;
    match writing.await.map_err(words)?.map_err(words)? {
        WriteOutcome::NotHeld => Ok(()),
        WriteOutcome::Written => Err("a former holder wrote the record".to_owned()),
    }
}

async fn a_sweep_beside_a_locked_row(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    used_once(&*store, &request("a", LONG)).await?;
    used_once(&*store, &request("b", LONG)).await?;
    let _locked = a_locked_row(stage, "locks").await?;
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
    let entered = stage.sql("SELECT heard FROM leasehold_queue WHERE name = 'b'").await?;
    let _locked = a_locked_row(stage, "queue").await?;
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

async fn an_entry_brought_back(stage: &OneMariadb) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    granted(&*store, &request("b", LONG)).await?;
    let (given_up, other) = (request("a", LONG), request("b", LONG));
    let _waiters = (enqueue(&*store, &given_up).await?, enqueue(&*store, &other).await?);
    store.abandon(&given_up).await.map_err(words)?;
    let heard = "SELECT heard FROM leasehold_queue WHERE name = 'b'";
    let entered = stage.sql(heard).await?;
    // Until its poll sends a heartbeat.
    while stage.sql(heard).await? == entered {
        not_granted(&*store, &other).await?;
    }
    release(&*store, &held).await?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}
