//! The guards in the statements of PostgreSQL.

mod marker;
mod queue;
mod readers;
mod records;
mod rows;
mod storage;
mod tail;

use std::sync::Arc;

use backend_sql::postgres::connect;
use lock_core::{Backend, Error};
use servers::{Change, Clock, Postgres, PostgresOptions, Proxy, Server as _};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use verification::{
    cases,
    missing_guards::{
        Clients, Setup, Trial, Verdict,
        cases::{check, words},
    },
};

use self::{marker::*, queue::*, readers::*, records::*, rows::*, storage::*, tail::*};
use super::common::{Database, a_late_renewal_beside_another, an_entry_behind_itself, of_all};

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

    /// A session without the proxy, which has run this.
    async fn session(&self, sql: &str) -> Result<PgConnection, String> {
        let url = format!("postgres://postgres@{}/postgres", self.server.address());
        let mut session = PgConnection::connect(&url).await.map_err(words)?;
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        sql.execute(&mut session).await.map_err(words)?;
        Ok(session)
    }

    /// Asserts that a query has this answer.
    async fn says(&self, sql: &str, expected: &str) -> Verdict {
        let answer = self.sql(sql).await?;
        check(answer == expected, || format!("{sql}: {answer}, not {expected}"))
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
    fn url(&self) -> String {
        self.plain() + "?timeout=30s"
    }

    async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
        connect(url).await
    }
}

#[async_trait::async_trait]
impl Database for OnePostgres {
    const FULL: &'static str = "UPDATE leasehold_locks SET readers = (SELECT \
        jsonb_object_agg(lpad(n::text, 32, '0'), 9000000000000000) FROM generate_series(1, 1000) AS n)";

    async fn sql(&self, sql: &str) -> Result<String, String> {
        self.server.sql(sql).await.map_err(words)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_is_missed() {
    let mut table = of_all();
    table.extend(cases![OnePostgres:
        an_entry_for_a_held_name, a_second_entry_for_a_free_name, an_attempt_after_a_crash,
        a_row_that_was_looked_at, an_entry_in_quarantine, a_hand_over_in_quarantine, an_attempt_in_a_copied_database,
        an_attempt_after_the_table_was_made_anew, a_row_of_a_table_that_was_logged, a_raise_that_was_not_heard_of,
        a_row_left_behind_in_a_copied_database, a_release_with_a_next_in_a_copied_database,
        a_release_to_an_entry_in_a_copied_database, a_release_notifies(whom),
        a_release_to_a_waiter_that_polls, an_attempt_before_entries_behind,
        an_entry_behind_that_asks_again, an_entry_for_a_lock_that_is_free, an_entry_behind_itself,
        an_entry_behind_the_tail, an_entry_for_a_full_head, an_entry_that_asks_again,
        a_release_to_an_entry_behind_a_dead_one, an_attempt_behind_an_old_entry,
        a_release_to_an_old_entry, a_release_to_a_new_entry, a_queue_that_moves_on,
        a_queue_that_moves_on_while_one_enters, one_of_two_behind_leaves, a_forged_message,
        a_late_confirmation, an_attempt_that_waits_for_the_row, below_the_watermark,
        an_attempt_that_waits_for_a_new_row, a_token_over_a_sweep,
        a_renewal_that_waits_for_the_row, a_batch_beside_a_locked_row, beside_crashed_readers,
        a_late_renewal_beside_another, a_release_beside_a_crashed_reader, an_attempt_after(change),
        a_sweep_beside_a_locked_row, a_write_after_the_fence_became_unlogged, a_stale_write,
        a_write_beside_a_takeover, a_write_to_an_unlogged_table, a_record_from_before_a_crash,
        a_record_in_a_copied_database, a_server_that_flushes_nothing,
    ]);
    let mut trial = Trial::of(&[concat!(env!("CARGO_MANIFEST_DIR"), "/src/postgres/sql")]);
    trial.on_clients(table).await;
    trial.end();
}
