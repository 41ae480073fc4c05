//! The statements: the text of the SQL files with the tables' names filled in.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, Mode, OwnerId, check_record_version};
use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use super::waiting::entries::CHANNEL;
use crate::{
    sql_files::{self, Others, SqlFiles, Syntax},
    tables::Tables,
};

/// The version of the tables, their contents and these statements. A step to another version
/// renames a column of the locks that every statement of an older client names: see
/// [`Dialect::check_version`](crate::dialect::Dialect::check_version).
pub(super) const RECORD_VERSION: i64 = 1;

/// Refuses tables of another version.
pub(super) fn check_version(stored: i64) -> Result<(), Error> {
    check_record_version(&stored.to_string(), RECORD_VERSION.cast_unsigned())
}

/// The schema of the tables, if the options name none.
pub(super) const DEFAULT_SCHEMA: &str = "public";

const FILES: [&str; 13] = [
    include_str!("sql/schema.sql"),
    include_str!("sql/checks.sql"),
    include_str!("sql/marker.sql"),
    include_str!("sql/acquire.sql"),
    include_str!("sql/attempt_in_queue.sql"),
    include_str!("sql/queue.sql"),
    include_str!("sql/release.sql"),
    include_str!("sql/renew.sql"),
    include_str!("sql/readers.sql"),
    include_str!("sql/admin.sql"),
    include_str!("sql/sweep.sql"),
    include_str!("sql/fence.sql"),
    include_str!("sql/record.sql"),
];

/// The server's clock now, not at the start of the transaction.
const NOW: &str = "pg_catalog.clock_timestamp()";

/// How many entries the head of the queue has at most. It is small enough for a page to keep
/// several versions of the row, and large enough that a lock that changes hands fast hardly needs
/// the table of queue entries.
const NEAR: u32 = 16;

/// The microseconds until the time in a column. 'infinity' has no number of microseconds, so it
/// counts as a thousand years.
fn left(column: &str) -> String {
    format!(
        "greatest((pg_catalog.date_part('epoch', greatest(least({column}, {NOW} + interval '1000 years'), {NOW}) \
         - {NOW}) * 1000000::double precision)::bigint, 0)"
    )
}

/// The time in a column as microseconds since 1970.
fn micros_of(column: &str) -> String {
    format!("(pg_catalog.date_part('epoch', {column}) * 1000000::double precision)::bigint")
}

/// `names` are the tables that the statements check.
fn with_files<T>(tables: &Tables, names: &[&str], read: impl FnOnce(&SqlFiles<'_>) -> T) -> T {
    with_more_files(tables, names, Others::default(), read)
}

fn with_more_files<T>(
    tables: &Tables,
    names: &[&str],
    others: Others<'_>,
    read: impl FnOnce(&SqlFiles<'_>) -> T,
) -> T {
    let [oids, found, stored] = checked(names);
    let mut values = vec![
        ("tables", oids),
        ("found", found),
        ("stored", stored),
        ("now", NOW.to_owned()),
        ("left_of_expires", left("expires")),
        ("left_of_turn", left("turn")),
        ("left_of_grants_from", left("m.grants_from")),
        ("micros_of_written", micros_of("r.written")),
        ("micros_of_records_since", micros_of("m.records_since")),
        ("near", NEAR.to_string()),
        ("channel", format!("'{CHANNEL}'")),
        ("shared", format!("'{}'", OwnerId::READERS)),
        ("most", Mode::MOST_READERS.to_string()),
    ];
    let syntax = Syntax { quote: '"', argument: |at| format!("${at}") };
    let files = others.after(&FILES, &mut values);
    read(&SqlFiles::new(&files, &values, tables, syntax))
}

sql_files::statements! {
    SqlStr, with_files(&STORE):
    insert join part create_row take retake confirm heartbeat refill read_row is_turn renew
    renew_readers renew_one release release_and_notify hand_on release_to_waiter keep raise reown force
    leave abandon list sweep_watermark sweep sweep_entries settings set_longest_lease set_quarantine
    distrust_rows open_at_once make_marker quarantine clock version writers notify health
    session_count identity highest_token reset_watermark reset_tokens append attempt attempt_reader
    write_record read_record forget_records set_records_complete
}

/// The first statement in each session of our own pool, which no other client uses, not even by way
/// of a pooler. The time limit is for the wait for a row or table: when a client gives a statement
/// up, its session ends with this wait. Statements are planned once, when the table may be small: a
/// scan would be right then, and slow later. A plan without an alternative then counts as
/// expensive, but compiling it (jit) is not worth it. By default the server plans a statement anew
/// for its first five executions in a session, which costs more than to execute it.
pub(super) fn own_session(timeout: Duration) -> SqlStr {
    let limit = timeout.as_millis();
    let set = format!(
        "SET lock_timeout = {limit}; SET enable_seqscan = off; SET jit = off; \
         SET plan_cache_mode = force_generic_plan"
    );
    AssertSqlSafe(Arc::<str>::from(set)).into_sql_str()
}

/// Reads statements of another crate by their names.
pub fn others<T>(
    tables: &Tables,
    others: Others<'_>,
    read: impl FnOnce(&dyn Fn(&str) -> SqlStr) -> T,
) -> T {
    with_more_files(tables, &[], others, |files| read(&|name| files.statement(name).into()))
}

/// The SQL of another crate that makes its tables.
pub fn other_schema(tables: &Tables, others: Others<'_>) -> String {
    with_more_files(tables, &[], others, |files| files.script("schema"))
}

/// The tables of a store.
pub(super) const STORE: [&str; 5] = ["{settings}", "{locks}", "{queue}", "{marker}", "{records}"];

/// SQL for these tables: their ids, whether each is there, and how each must be stored.
fn checked(names: &[&str]) -> [String; 3] {
    let class = |name: &&str| format!("pg_catalog.to_regclass('{name}')");
    let id = |name: &&str| format!("{}::pg_catalog.oid", class(name));
    let stored = |name: &&str| {
        // No promise depends on how the table of queue entries is stored, nor do we make the tables
        // of foreign locks. No lock depends on the records: each write of one checks their table.
        let persistence = match *name {
            "{locks}" | "{marker}" => 'u',
            "{settings}" | "{fence}" => 'p',
            _ => return None,
        };
        Some(format!("({}, '{persistence}'::pg_catalog.\"char\")", id(name)))
    };
    let mut stored: Vec<_> = names.iter().filter_map(stored).collect();
    if stored.is_empty() {
        stored.push("(0::pg_catalog.oid, 'u'::pg_catalog.\"char\")".to_owned());
    }
    let ids: Vec<_> = names.iter().map(id).collect();
    let found: Vec<_> = names.iter().map(|name| format!("{} IS NOT NULL", class(name))).collect();
    [ids.join(", "), format!("ARRAY[{}]", found.join(", ")), stored.join(", ")]
}

/// The SQL that makes the tables.
pub(super) fn schema(tables: &Tables, longest_lease: i64) -> String {
    let text = with_files(tables, &STORE, |files| files.script("schema"));
    text.replace("{longest_lease}", &longest_lease.to_string())
}

/// Checks these tables before a statement names one: see `connection/table_check.rs`.
pub fn exists(tables: &Tables, names: &[&str]) -> SqlStr {
    with_files(tables, names, |files| files.statement("exists").into())
}

/// SQL that fails if another role owns one of these tables, for a script of several statements.
#[must_use]
pub fn owners(tables: &Tables, names: &[&str]) -> String {
    with_files(tables, names, |files| files.script("refuse_tables"))
}

/// The SQL that makes the table of the fence.
pub(super) fn fence_schema(tables: &Tables) -> String {
    with_files(tables, &["{fence}"], |files| files.script("fence_schema"))
}

/// The same for a fence, even if others do so at the same time. It answers why the table is refused
/// instead of failing: an error would end the user's transaction.
pub(super) fn fence_schema_concurrent(tables: &Tables) -> SqlStr {
    with_files(tables, &["{fence}"], |files| files.statement("fence_schema_concurrent").into())
}

/// The fence's statement.
pub(super) fn admit(tables: &Tables) -> SqlStr {
    with_files(tables, &["{fence}"], |files| files.statement("admit").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_as_they_are_sent_are_on_record() {
        let tables = Tables::new("leasehold").unwrap();
        let sent = with_files(&tables, &STORE, |files| files.as_sent());
        crate::sql_files::assert_on_record("postgres", &sent);
    }
}
