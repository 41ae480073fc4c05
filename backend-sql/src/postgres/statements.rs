//! The statements: the text of the SQL files with the tables' names filled in.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, check_record_version};
use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use crate::tables::{Tables, is_sent};

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

/// SQL for the microseconds until the time in a column.
macro_rules! left {
    ($column:literal) => {
        concat!(
            "greatest((pg_catalog.date_part('epoch', greatest(least(",
            $column,
            ", {now} + interval '1000 years'), {now}) - {now}) * 1000000::double precision)::bigint, 0)"
        )
    };
}

/// What replaces the names in braces in the statements. A part may contain later parts.
const PARTS: [(&str, &str); 25] = [
    // Whether the marker is this store's, and the quarantine is over.
    ("{granting}", include_str!("sql/granting.sql")),
    // Whether a loss of data would empty the tables of locks, and leave the settings. It is read
    // from the server's cache of its catalog, with each grant, because an operator may change it at
    // any time.
    ("{persistence}", include_str!("sql/persistence.sql")),
    // Whether the owner was not abandoned.
    ("{not_abandoned}", include_str!("sql/not_abandoned.sql")),
    (
        "{columns}",
        "name, owner, label, token, version, kept, \
         CASE WHEN owner = {shared} THEN pg_catalog.length(readers)::bigint / {reader} END AS readers, \
         {left of expires} AS remaining, {left of turn} AS turn, \
         pg_catalog.cardinality(waiters)::bigint + (far IS NOT NULL)::integer AS waiting, \
         coalesce(waiters[1], CASE WHEN waiters IS NOT NULL THEN '' END) AS first",
    ),
    // To count the sessions in `pg_stat_activity` takes ten times as long.
    (
        "{sessions}",
        "pg_catalog.current_setting('max_connections')::bigint, \
         (SELECT pg_catalog.sum(pg_catalog.pg_stat_get_db_numbackends(d.oid)) FROM pg_catalog.pg_database AS d)::bigint",
    ),
    // How many wait, for operators.
    (
        "{waiting}",
        "pg_catalog.cardinality(waiters)::bigint + CASE WHEN far IS NULL THEN 0::bigint ELSE ( \
         SELECT pg_catalog.count(*) FROM {queue} AS b \
         WHERE b.name = l.name AND b.entered > coalesce(l.moved, 0::bigint)) END AS waiting_all",
    ),
    // Whether $2 has an entry in the tail of the queue.
    (
        "{is_behind}",
        "(l.far IS NOT NULL AND EXISTS (SELECT 1 FROM {queue} AS b \
         WHERE b.name = $1 AND b.owner = $2 AND b.entered > coalesce(l.moved, 0::bigint)))",
    ),
    // Whether $2 may become one of the readers that share the row.
    ("{open}", include_str!("sql/open.sql")),
    // Whether $2 is one of these readers.
    ("{is_reader}", "(l.owner = {shared} AND pg_catalog.strpos(l.readers, $2) > 0)"),
    // Whether readers share the row, and the first entry is another reader's.
    (
        "{reader_next}",
        "coalesce(l.owner = {shared} AND pg_catalog.substr(l.waiters[1], 65, 1) = '*', false)",
    ),
    // The owner of a row that readers share, as `OwnerId::READERS`; the length of each reader in
    // the column, and of all.
    ("{shared}", "'00000000000000000000000000000000'"),
    ("{reader}", "33"),
    ("{most}", "33000"),
    // The head of the queue without the entry of $2: the entries, and until when they are alive.
    ("{without}", include_str!("sql/without.sql")),
    // Whether entries should move from the tail to the head: half of the head is free.
    ("{short}", "(far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < {near} / 2)"),
    // The size of the head. It is small enough for a page to keep several versions of the row, and
    // large enough that a lock that changes hands fast hardly needs the table of queue entries.
    ("{near}", "16"),
    // 'infinity' has no number of microseconds, so it counts as a thousand years.
    ("{left of expires}", left!("expires")),
    ("{left of turn}", left!("turn")),
    ("{left of grants_from}", left!("m.grants_from")),
    // An entry begins with the 32 digits of its owner and those of its client.
    ("{notify_first}", include_str!("sql/notify_first.sql")),
    // The cluster and the database. A table that was made anew has another oid; a replica has its
    // primary's cluster, but its unlogged tables are empty. Neither name changes within a session,
    // and both are expensive (the server reads its control file), so a session asks once. Behind a
    // pooler, another client's session has the same names.
    (
        "{here}",
        "coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), \
         pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || \
         substring(pg_catalog.pg_relation_filepath('{marker}') from '([0-9]+)/[0-9]+$'), false))",
    ),
    // 1 if the statement began within the last half minute, by a clock that was not set back since;
    // otherwise 0. The statement divides by this. So an old statement fails, and is repeated: see
    // insert.sql. This does not notice a clock that is set back, during the statement, by about as
    // much as the statement is late. Exclusion does not depend on it: a clock that is set back
    // makes leases, turns and quarantines longer, and no statement takes a lock that had not ended
    // by some clock. A token could go back only if all of this happens together:
    // - The statement itself stops for over a minute between its snapshot and its row, while other
    //   sessions raise the watermark and sweep. (A wait for a row of that name is not such a stop,
    //   since it keeps the row from being swept.)
    // - Meanwhile the clock is set back by over half a minute.
    // - The client has not given the statement up. It does so after `timeout`, 5 s by default, and
    //   then leaves a tombstone in that very row, which the statement finds. PostgreSQL shows only
    //   the wall clock to a statement that wants to know its age. To lock the marker's row for each
    //   new name, as in MySQL, would make all of them pay for this case.
    (
        "{young}",
        "({now} BETWEEN pg_catalog.now() AND pg_catalog.now() + interval '30 seconds')::integer",
    ),
    // Makes this transaction durable, even if the server answers commits before it flushes them.
    // The length of the quarantine after a crash depends on the settings, so an answered change
    // must survive the crash.
    (
        "{durably}",
        "CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' \
         THEN pg_catalog.set_config('synchronous_commit', 'on', true) END",
    ),
    ("{micros}", "(pg_catalog.date_part('epoch', {now}) * 1000000::double precision)::bigint"),
    // The server's clock now, not at the start of the transaction.
    ("{now}", "pg_catalog.clock_timestamp()"),
];

/// What differs in attempt_or_enqueue.sql for a writer and for a reader, in this order.
const READER_PARTS: [(&str, [&str; 2]); 8] = [
    ("{attempt_column}", ["", ", readers"]),
    ("{attempt_owner}", ["$2", "{shared}"]),
    ("{attempt_token}", ["", "WHEN a.takes AND NOT a.free THEN greatest(l.token, $5)"]),
    ("{attempt_expires}", ["", "WHEN a.takes AND NOT a.free THEN greatest(l.expires, {now} + $4)"]),
    (
        "{attempt_readers}",
        [
            "",
            ", CASE WHEN a.takes THEN pg_catalog.concat(CASE WHEN NOT a.free THEN l.readers END, $2, ',') \
             ELSE l.readers END",
        ],
    ),
    ("{attempt_mine}", ["l.owner = $2", "{is_reader}"]),
    ("{attempt_free}", ["f.free", "(f.free OR {open})"]),
    ("{attempt_tells}", ["", "OR {reader_next}"]),
];

/// attempt_or_enqueue.sql for a writer and for a reader.
fn attempts(tables: &Tables) -> [SqlStr; 2] {
    [0, 1].map(|at| {
        let text = include_str!("sql/attempt_or_enqueue.sql").to_owned();
        let filled =
            READER_PARTS.iter().fold(text, |text, (part, each)| text.replace(part, each[at]));
        shared(tables, &filled)
    })
}

/// The statements of one store. Their text is ours but for the tables' names, which were checked.
macro_rules! statements {
    ($($name:ident)*) => {
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: SqlStr,)*
            /// For a writer and for a reader.
            pub(super) attempts: [SqlStr; 2],
        }

        impl Statements {
            pub(super) fn new(tables: &Tables) -> Self {
                Self {
                    $($name: shared(tables, include_str!(concat!("sql/", stringify!($name), ".sql"))),)*
                    attempts: attempts(tables),
                }
            }
        }
    };
}

statements! {
    insert join part create_row take retake confirm heartbeat refill read_row is_turn renew
    renew_readers renew_one release release_and_notify hand_on release_to_waiter keep raise force
    leave abandon list sweep_watermark sweep sweep_entries settings set_longest_lease set_quarantine
    distrust_rows distrust_all open_at_once make_marker quarantine clock version writers notify health
    session_count identity highest_token reset_watermark reset_tokens
}

/// The first statement in each session of our own pool.
pub(super) fn own_session(timeout: Duration) -> SqlStr {
    let limit = timeout.as_millis().to_string();
    let lines = include_str!("sql/own_session.sql").lines().filter(|line| is_sent(line));
    AssertSqlSafe(lines.collect::<String>().replace("{limit}", &limit)).into_sql_str()
}

fn filled(tables: &Tables, text: &str) -> String {
    let text = PARTS.iter().fold(text.to_owned(), |text, (part, sql)| text.replace(part, sql));
    tables.fill(&text, '"')
}

/// A statement with the tables' names, and without the comments, which name the arguments. To clone
/// it does not copy the text.
pub fn shared(tables: &Tables, text: &str) -> SqlStr {
    let lines = text.lines().filter(|line| is_sent(line));
    let text: Arc<str> = filled(tables, &lines.collect::<Vec<_>>().join("\n")).into();
    AssertSqlSafe(text).into_sql_str()
}

/// The tables of a store.
pub(super) const STORE: [&str; 4] = ["{settings}", "{locks}", "{queue}", "{marker}"];

/// The SQL that makes the tables.
pub(super) fn schema(tables: &Tables, longest_lease: i64) -> String {
    let text = include_str!("sql/schema.sql")
        .replace("{owners}", &owners(&STORE))
        .replace("{longest_lease}", &longest_lease.to_string());
    filled(tables, &text)
}

/// SQL that says why a table of another role is refused.
fn refused_table(names: &[&str]) -> String {
    let oid = |name: &&str| format!("pg_catalog.to_regclass('{name}')::pg_catalog.oid");
    let tables: Vec<_> = names.iter().map(oid).collect();
    include_str!("sql/refused_table.sql").replace("{tables}", &tables.join(", "))
}

/// SQL that says why a table is refused for the way in which it is stored.
fn refused_storage(names: &[&str]) -> String {
    let stored = |name: &&str| {
        // No promise depends on how the table of queue entries is stored, nor do we make the tables
        // of foreign locks.
        let persistence = match *name {
            "{locks}" | "{marker}" => 'u',
            "{settings}" | "{fence}" => 'p',
            _ => return None,
        };
        Some(format!(
            "(pg_catalog.to_regclass('{name}')::pg_catalog.oid, '{persistence}'::pg_catalog.\"char\")"
        ))
    };
    let mut stored: Vec<_> = names.iter().filter_map(stored).collect();
    if stored.is_empty() {
        stored.push("(0::pg_catalog.oid, 'u'::pg_catalog.\"char\")".to_owned());
    }
    include_str!("sql/refused_storage.sql").replace("{stored}", &stored.join(", "))
}

/// Checks these tables before a statement names one: see `connection/table_check.rs`.
pub fn exists(tables: &Tables, names: &[&str]) -> SqlStr {
    let is_there = |name: &&str| format!("pg_catalog.to_regclass('{name}') IS NOT NULL");
    let found: Vec<_> = names.iter().map(is_there).collect();
    let text = include_str!("sql/exists.sql")
        .replace("{found}", &format!("ARRAY[{}]", found.join(", ")))
        .replace("{refused_table}", refused_table(names).trim_end())
        .replace("{refused_storage}", refused_storage(names).trim_end());
    shared(tables, &text)
}

/// SQL that fails if another role owns one of these tables, for a script of several statements.
#[must_use]
pub fn owners(names: &[&str]) -> String {
    include_str!("sql/refuse_tables.sql")
        .replace("{refused_table}", refused_table(names).trim_end())
}

/// The SQL that makes the table of the fence.
pub(super) fn fence_schema(tables: &Tables) -> String {
    filled(tables, &format!("{}{}", include_str!("sql/fence_schema.sql"), owners(&["{fence}"])))
}

/// The same for a fence, even if others do so at the same time. It answers why the table is refused
/// instead of failing: an error would end the user's transaction.
pub(super) fn fence_schema_concurrent(tables: &Tables) -> SqlStr {
    let text = include_str!("sql/fence_schema_concurrent.sql");
    let text = text.replace("{fence_schema.sql}", include_str!("sql/fence_schema.sql").trim_end());
    shared(tables, &format!("{text}{}", refused_table(&["{fence}"])))
}

/// The fence's statement.
pub(super) fn admit(tables: &Tables) -> SqlStr {
    shared(tables, include_str!("sql/fence_admit.sql"))
}
