//! The guards in the statements of PostgreSQL.

mod marker;
mod queue;
mod reader_ends;
mod records;
mod rows;
mod storage;
mod tail;

use std::sync::Arc;

use backend_sql::postgres::{PostgresFence, connect};
use lock_core::Backend;
use servers::{
    Change::{self, LeaveOut, Replace},
    Clock, Postgres, PostgresOptions, Proxy, Server as _,
};
use sqlx::{Connection as _, PgConnection};
use verification::missing_guards::{
    Clients, MissingGuard, Setup, Verdict,
    cases::{
        LONG, a_batch_with_a_locked_row, a_renewal_above_the_longest_lease, above, first_use,
        granted, not_granted, request, words,
    },
    every_marker_is_tried, try_all,
};
use verification::variants;

use self::marker::{
    a_raise_that_was_not_heard_of, a_release_to_an_entry_in_a_copied_database,
    a_release_with_a_next_in_a_copied_database, a_row_left_behind_in_a_copied_database,
    a_row_that_was_looked_at, an_attempt_after_a_crash, an_attempt_after_the_table_was_made_anew,
    an_attempt_in_a_copied_database, an_entry_in_quarantine,
};
use self::queue::{
    a_release_notifies, a_release_to_a_waiter_that_polls, a_second_entry_for_a_free_name,
    an_entry_for_a_held_name,
};
use self::reader_ends::{
    a_late_renewal_beside_another, a_release_beside_a_crashed_reader, beside_crashed_readers,
};
use self::records::{
    a_record_from_before_a_crash, a_record_in_a_copied_database, a_server_that_flushes_nothing,
    a_write_beside_a_takeover, a_write_to_an_unlogged_table,
};
use self::rows::{
    a_locked_row, a_renewal_that_waits_for_the_row, an_attempt_that_waits_for_a_new_row,
    an_attempt_that_waits_for_the_row,
};
use self::storage::{
    a_sweep_beside_a_locked_row, a_write_after_the_fence_became_unlogged, an_attempt_after,
};
use self::tail::{
    a_forged_message, a_late_confirmation, a_queue_that_moves_on,
    a_queue_that_moves_on_while_one_enters, a_release_to_a_new_entry,
    a_release_to_an_entry_behind_a_dead_one, a_release_to_an_old_entry,
    an_attempt_before_entries_behind, an_attempt_behind_an_old_entry,
    an_entry_behind_that_asks_again, an_entry_behind_the_tail, an_entry_for_a_full_head,
    an_entry_for_a_lock_that_is_free, an_entry_that_asks_again, one_of_two_behind_leaves,
};
use super::{
    common::{Common, below_the_watermark, without_common_guards},
    entries::{an_entry_behind_itself, an_entry_of_an_abandoned_owner, used_once},
    readers, stale_write,
};

struct OnePostgres {
    server: Postgres,
    proxy: Proxy,
    clock: Clock,
}

impl OnePostgres {
    /// As the driver knows it.
    fn plain(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.proxy.address())
    }

    fn url(&self) -> String {
        self.plain() + "?timeout=30s"
    }
}

#[async_trait::async_trait]
impl Setup for OnePostgres {
    async fn start(changes: &[Change<'_>]) -> Self {
        let clock = Clock::new().await.unwrap();
        let server = Postgres::start(PostgresOptions::new().clock(&clock)).await.unwrap();
        let proxy = Proxy::changing(server.address(), changes).await.unwrap();
        Self { server, proxy, clock }
    }

    fn altered(&self) -> u64 {
        self.proxy.counters().altered
    }
}

#[async_trait::async_trait]
impl Clients for OnePostgres {
    async fn open(&self) -> Arc<dyn Backend> {
        connect(&self.url()).await.unwrap()
    }
}

const FOLDERS: &[&str] = &[concat!(env!("CARGO_MANIFEST_DIR"), "/src/postgres")];

/// The changes for the guards that every database has.
const COMMON: Common = Common {
    held: &[LeaveOut("held")],
    release_owner: &[Replace("release-owner", "AND $2 <> ''")],
    renew_expired: &[LeaveOut("renew-expired")],
    abandoned: &[LeaveOut("not-abandoned")],
    abandon_kept: &[LeaveOut("abandon-kept")],
    join_expires: &[Replace("join-expires", "NULL::timestamptz")],
    join_others: &[Replace("join-others", "NULL::jsonb")],
    join_above: &[Replace("join-above", "ELSE greatest(0, $5)")],
    renew_reader: &[LeaveOut("renew-reader")],
    renew_readers_expired: &[LeaveOut("renew-reader")],
    join_abandoned: &[LeaveOut("not-abandoned")],
    join_barging: &[LeaveOut("join-barging")],
    record_owner: &[Replace("record-owner", "AND $2 <> ''")],
    record_kept: &[LeaveOut("record-kept")],
    record_expired: &[LeaveOut("record-expired")],
    record_number: &[Replace("record-number", "AND false")],
    record_time: &[LeaveOut("record-time")],
};

variants! {
    VARIANTS |stage: OnePostgres|
    "S1: a name that is held is not granted to an entry" LeaveOut("ask-held") => an_entry_for_a_held_name(stage);
    "L3: an entry behind another is not granted a free lock" LeaveOut("ask-first") => a_second_entry_for_a_free_name(stage);
    "S1: every grant waits for the quarantine of the marker" LeaveOut("marker-time") => an_attempt_after_a_crash(stage);
    "S1: so does one that takes a row that the client has read" LeaveOut("marker-time") => a_row_that_was_looked_at(stage);
    "S1: so does one of a queue entry" LeaveOut("marker-time") => an_entry_in_quarantine(stage);
    "S1: every grant finds the marker to be of this database"
        LeaveOut("marker-store") => an_attempt_in_a_copied_database(stage);
    "S1: every grant finds the marker in the table that it was made in"
        LeaveOut("marker-itself") => an_attempt_after_the_table_was_made_anew(stage);
    "S1: a quarantine is as long as its client knows a lease to have been"
        Replace("longest-heard-of", ", least($1, interval '0')"), Replace("longest-heard-of-again", ", least($1, interval '0')")
        => a_raise_that_was_not_heard_of(stage);
    "S1: a released row that is taken again is of this database"
        LeaveOut("retake-store") => a_row_left_behind_in_a_copied_database(stage);
    "S1: what a release hands to the next of its process is of this database"
        LeaveOut("hand-on-store") => a_release_with_a_next_in_a_copied_database(stage);
    "S1: what a release grants to a queue entry is of this database"
        LeaveOut("pass-store") => a_release_to_an_entry_in_a_copied_database(stage);
    "L2: a release that grants the lock to an entry notifies its client"
        Replace("pass-tells", "'elsewhere' || client,") => a_release_notifies(stage, false);
    "L2: a release notifies the client of an entry that must ask for the lock itself"
        Replace("tells-first", "'elsewhere'") => a_release_notifies(stage, true);
    "L2: a waiter without messages finds its grant when it polls"
        Replace("check-sees-grants", "WHEN false THEN false") => a_release_to_a_waiter_that_polls(stage);
    "L3: an attempt does not barge past entries in the tail"
        LeaveOut("ask-behind") => an_attempt_before_entries_behind(stage);
    "L3: an entry joins the tail once" LeaveOut("ask-once") => an_entry_behind_that_asks_again(stage);
    "L3: no entry is appended to the queue of a free lock"
        LeaveOut("append-held") => an_entry_for_a_lock_that_is_free(stage);
    "S6: no entry is appended for the holder that asks again"
        LeaveOut("append-not-own") => an_entry_behind_itself(stage);
    "L3: no entry is appended before those in the tail" LeaveOut("append-no-tail") => an_entry_behind_the_tail(stage);
    "L3: no entry is appended to a full head" LeaveOut("append-room") => an_entry_for_a_full_head(stage);
    "L3: an entry is appended once" LeaveOut("append-once") => an_entry_that_asks_again(stage);
    "L3: an entry is not appended behind a dead one"
        LeaveOut("append-alive") => a_release_to_an_entry_behind_a_dead_one(stage);
    "S6: no entry is appended for an abandoned owner"
        LeaveOut("not-abandoned") => an_entry_of_an_abandoned_owner(stage);
    "L3: heartbeats keep an entry at the head alive" LeaveOut("ask-heartbeat") => an_attempt_behind_an_old_entry(stage);
    "L2: a release grants the lock to an entry that its heartbeats keep alive"
        LeaveOut("pass-heartbeat") => a_release_to_an_old_entry(stage);
    "L2: a release grants the lock to an entry that has sent no heartbeat yet"
        LeaveOut("pass-alive") => a_release_to_a_new_entry(stage);
    "L3: an entry moves to the head once" LeaveOut("refill-moved") => a_queue_that_moves_on(stage);
    "L3: an entry that joins the tail during a refill is not lost"
        LeaveOut("refill-newest") => a_queue_that_moves_on_while_one_enters(stage);
    "L3: a waiter that leaves removes no other entry" LeaveOut("leave-behind") => one_of_two_behind_leaves(stage);
    "S1: a message alone is no grant" LeaveOut("confirm-owner") => a_forged_message(stage);
    "S5: a grant by a release that is not confirmed in time expires"
        LeaveOut("confirm-expired") => a_late_confirmation(stage);
    "S2: a token is computed from the locked row, not from EXCLUDED"
        Replace("token-of-the-row", "token = excluded.token,") => an_attempt_that_waits_for_the_row(stage);
    "S2: a name that is not there gets a token above the watermark"
        LeaveOut("watermark") => below_the_watermark(stage, stage.server.sql(LEAD));
    "S2: an attempt that has waited for a minute makes no row with an old watermark"
        LeaveOut("young") => an_attempt_that_waits_for_a_new_row(stage);
    "S2: a sweep forgets only tokens that the watermark covers" LeaveOut("sweep-covered") => a_token_over_a_sweep(stage);
    "S1: a renewal keeps the longest lease of now" LeaveOut("renew-longest") => a_renewal_above_the_longest_lease(stage);
    "S5: nor does one that waited for its row" LeaveOut("renew-one-expired") => a_renewal_that_waits_for_the_row(stage);
    "L5: a renewal does not wait for a row that another transaction has"
        Replace("renew-skips", "FOR UPDATE OF l") => a_batch_with_a_locked_row(stage, a_locked_row(stage));
    "S1: readers join no writer" LeaveOut("join-readers") => readers::beside_a_writer(first_use(stage));
    "S1: no more readers join than may" LeaveOut("join-most") => readers::beside_the_most(stage, stage.server.sql(FULL));
    "S5: a reader whose lease is over does not come back while others share the lock"
        Replace("renew-reader", "AND l.readers ->> g.owner <> '' AND l.expires > pg_catalog.clock_timestamp()")
        => a_late_renewal_beside_another(stage);
    "L1: a reader that has crashed makes room for another"
        Replace("join-most", "AND (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_object_keys(l.readers)) < 1000")
        => beside_crashed_readers(stage);
    "L2: the last living reader grants the lock to the first waiter"
        LeaveOut("part-alive") => a_release_beside_a_crashed_reader(stage);
    "S1: nothing is granted while the locks are logged"
        LeaveOut("locks-unlogged") => an_attempt_after(stage, "locks SET LOGGED");
    "S1: nothing is granted while the marker is logged"
        LeaveOut("marker-unlogged") => an_attempt_after(stage, "marker SET LOGGED");
    "S1: nothing is granted while the settings are unlogged"
        LeaveOut("settings-logged") => an_attempt_after(stage, "settings SET UNLOGGED");
    "L2: a sweep does not wait for a row that another transaction has"
        Replace("sweep-skips", "FOR UPDATE OF l") => a_sweep_beside_a_locked_row(stage);
    "S7: no other holder comes between the check and the write"
        LeaveOut("record-locks") => a_write_beside_a_takeover(stage);
    "S7: no record is written to a table that a crash empties"
        LeaveOut("records-logged") => a_write_to_an_unlogged_table(stage);
    "S7: a loss of data is known" Replace("records-since-the-loss", "'epoch'") => a_record_from_before_a_crash(stage);
    "S7: a marker of another store tells nothing of records"
        LeaveOut("records-marker") => a_record_in_a_copied_database(stage);
    "S7: records are promised by what the server flushes"
        LeaveOut("records-flushed") => a_server_that_flushes_nothing(stage);
    "S2: the fence admits nothing to a table that a crash empties"
        Replace("fence-logged", "token") => a_write_after_the_fence_became_unlogged(stage);
    "S2: the fence refuses a lower token"
        Replace("fence", "token = $2") => stale_write!(PostgresFence, PgConnection, stage.plain());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_misses_its_guards() {
    let common = without_common_guards::<OnePostgres>(&COMMON);
    try_all(FOLDERS, &common).await;
    try_all(FOLDERS, VARIANTS).await;
    every_marker_is_tried(
        FOLDERS,
        &[MissingGuard::names(&common), MissingGuard::names(VARIANTS)].concat(),
    );
}

/// Fills the lock with the maximum number of readers.
const FULL: &str = "UPDATE leasehold_locks SET readers = (SELECT \
    jsonb_object_agg(lpad(n::text, 32, '0'), 9000000000000000) FROM generate_series(1, 1000) AS n)";

async fn a_token_over_a_sweep(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let first = used_once(&*store, &request("a", LONG)).await?;
    stage.clock.step(-3_600.0).unwrap();
    // A client sweeps once in a thousand releases.
    for _ in 0..1_001 {
        used_once(&*store, &request("busy", LONG)).await?;
    }
    // Waits for the sweep.
    store.close().await;
    above(&first, &granted(&*stage.open().await, &request("a", LONG)).await?)
}

/// Makes the watermark lead the clock, and reads it.
const LEAD: &str = "UPDATE leasehold_marker SET watermark = \
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 25000000 RETURNING watermark";
