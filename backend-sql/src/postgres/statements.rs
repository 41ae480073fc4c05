//! The statements: the text of the SQL files with the tables' names filled in.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, check_record_version};
use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use crate::tables::{Tables, is_sent};

/// The version of the tables, their contents and these statements. A step to another version renames a column of the
/// locks that every statement of an older client names: see [`Dialect::check_version`](crate::dialect::Dialect::check_version).
pub(super) const RECORD_VERSION: i64 = 2;

/// Refuses tables of another version.
pub(super) fn check_version(stored: i64) -> Result<(), Error> {
    check_record_version(&stored.to_string(), RECORD_VERSION.cast_unsigned())
}

/// Whether `init` upgrades tables of this version.
pub(super) fn is_older(stored: i64) -> bool {
    stored < RECORD_VERSION
}

/// That of the tables, where none is named.
pub(super) const DEFAULT_SCHEMA: &str = "public";

/// The microseconds until a column's time.
macro_rules! left {
    ($column:literal) => {
        concat!(
            "greatest((pg_catalog.date_part('epoch', greatest(least(",
            $column,
            ", {now} + interval '1000 years'), {now}) - {now}) * 1000000::double precision)::bigint, 0)"
        )
    };
}

/// What stands in braces in the statements; the later may stand in the earlier.
const PARTS: [(&str, &str); 24] = [
    // Whether the marker is this store's, and its time has come.
    ("{granting}", include_str!("sql/granting.sql")),
    // Whether the owner was not abandoned.
    ("{not_abandoned}", include_str!("sql/not_abandoned.sql")),
    (
        "{columns}",
        "name, owner, label, token, version, kept, \
         CASE WHEN owner = {shared} THEN pg_catalog.length(readers)::bigint END AS readers, \
         {left of expires} AS remaining, {left of turn} AS turn, \
         pg_catalog.cardinality(waiters)::bigint + (far IS NOT NULL)::integer AS waiting, \
         coalesce(waiters[1], CASE WHEN waiters IS NOT NULL THEN '' END) AS first",
    ),
    // To count those that are there in `pg_stat_activity` takes ten times as long.
    (
        "{sessions}",
        "pg_catalog.current_setting('max_connections')::bigint, \
         (SELECT pg_catalog.sum(pg_catalog.pg_stat_get_db_numbackends(d.oid)) FROM pg_catalog.pg_database AS d)::bigint",
    ),
    // How many wait, for people.
    (
        "{waiting}",
        "pg_catalog.cardinality(waiters)::bigint + CASE WHEN far IS NULL THEN 0::bigint ELSE ( \
         SELECT pg_catalog.count(*) FROM {places} AS b \
         WHERE b.name = l.name AND b.entered > coalesce(l.moved, 0::bigint)) END AS waiting_all",
    ),
    // Whether $2 has a place behind those near the head.
    (
        "{is_behind}",
        "(l.far IS NOT NULL AND EXISTS (SELECT 1 FROM {places} AS b \
         WHERE b.name = $1 AND b.owner = $2 AND b.entered > coalesce(l.moved, 0::bigint)))",
    ),
    // Whether $2 may become one of the readers that share the row.
    ("{open}", include_str!("sql/open.sql")),
    // Whether $2 is one of them.
    ("{is_reader}", "(l.owner = {shared} AND pg_catalog.strpos(l.readers, $2) > 0)"),
    // Whether they share the row, and the first place is that of one more.
    (
        "{reader_next}",
        "coalesce(l.owner = {shared} AND pg_catalog.substr(l.waiters[1], 65, 1) = '*', false)",
    ),
    // The owner of a row that readers share, as `OwnerId::READERS`; what each of them takes up; and what all may.
    ("{shared}", "'00000000000000000000000000000000'"),
    ("{reader}", "33"),
    ("{most}", "33000"),
    // What is left of the places near the head without $2, and of until when they are alive.
    ("{without}", include_str!("sql/without.sql")),
    // Whether places behind are to come near the head, where half of the room is free.
    ("{short}", "(far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < {near} / 2)"),
    // So many places stand in the row of the lock: few enough for a page to keep several versions of it, and so many that
    // the table of places is hardly needed where a lock changes hands fast.
    ("{near}", "16"),
    // 'infinity' is no number of microseconds: it counts as a thousand years.
    ("{left of expires}", left!("expires_2")),
    ("{left of turn}", left!("turn")),
    ("{left of grants_from}", left!("m.grants_from")),
    // A place begins with its owner's 32 digits and its client's.
    ("{tell_first}", include_str!("sql/tell_first.sql")),
    // The cluster and the database. A table that was made anew has another oid; a replica has its
    // primary's cluster, but its unlogged tables are empty. Neither ever changes for a session, and
    // both are dear to ask for (the control file is read), so a session asks once. Another client's
    // session behind a pooler does just as well.
    (
        "{here}",
        "coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), \
         pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || \
         substring(pg_catalog.pg_relation_filepath('{marker}') from '([0-9]+)/[0-9]+$'), false))",
    ),
    // 1 if the statement began within the last half minute, by a clock that was not set back since. To divide
    // by 0 fails it, and it is repeated: see insert.sql.
    // What this does not see is a clock that was set back, during the statement, by about as much as the statement
    // is late. Exclusion does not rest on it: a clock that is set back makes leases, turns and quarantines longer, and no
    // statement takes what was not over by some clock. A token could go back, where all of this comes together: the
    // statement stands still by itself for over a minute between its snapshot and its row, while other sessions raise the
    // watermark and sweep (a statement that waits for a row of that name keeps it from being swept, so it is not this wait);
    // meanwhile the clock is set back by over half a minute; and its client has not given it up, which it does after
    // `timeout`, 5 s if nothing is said, and then leaves a tombstone in that very row, which the statement finds. The
    // server shows no clock but the wall's by which a statement could tell its age, and locking the marker's row for
    // each new name, as in MySQL, would cost all of them for this.
    (
        "{young}",
        "({now} BETWEEN pg_catalog.now() AND pg_catalog.now() + interval '30 seconds')::integer",
    ),
    // So that a setting that was answered outlives a crash, also where the server answers commits before they
    // are flushed: how long nothing is granted after the crash rests on it. For this transaction only.
    (
        "{durably}",
        "CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' \
         THEN pg_catalog.set_config('synchronous_commit', 'on', true) END",
    ),
    ("{micros}", "(pg_catalog.date_part('epoch', {now}) * 1000000::double precision)::bigint"),
    // The server's clock at the moment at which it is read, not at the start of the transaction.
    ("{now}", "pg_catalog.clock_timestamp()"),
];

/// What differs in ask.sql: for a writer, and for a reader.
const ASK: [(&str, [&str; 2]); 8] = [
    ("{ask_column}", ["", ", readers"]),
    ("{ask_owner}", ["$2", "{shared}"]),
    ("{ask_token}", ["", "WHEN a.takes AND NOT a.free THEN greatest(l.token, $5)"]),
    ("{ask_expires}", ["", "WHEN a.takes AND NOT a.free THEN greatest(l.expires_2, {now} + $4)"]),
    (
        "{ask_readers}",
        [
            "",
            ", CASE WHEN a.takes THEN pg_catalog.concat(CASE WHEN NOT a.free THEN l.readers END, $2, ',') \
             ELSE l.readers END",
        ],
    ),
    ("{ask_mine}", ["l.owner = $2", "{is_reader}"]),
    ("{ask_free}", ["f.free", "(f.free OR {open})"]),
    ("{ask_tells}", ["", "OR {reader_next}"]),
];

/// The statements by which a writer's place asks, and a reader's.
fn asks(tables: &Tables) -> [SqlStr; 2] {
    [0, 1].map(|at| {
        let text = include_str!("sql/ask.sql").to_owned();
        let filled = ASK.iter().fold(text, |text, (part, each)| text.replace(part, each[at]));
        shared(tables, &filled)
    })
}

/// The statements of one store. Their text is ours but for the tables' names, which were checked.
macro_rules! statements {
    ($($name:ident)*) => {
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: SqlStr,)*
            /// Of a writer's place, and of a reader's.
            pub(super) asks: [SqlStr; 2],
        }

        impl Statements {
            pub(super) fn new(tables: &Tables) -> Self {
                Self {
                    $($name: shared(tables, include_str!(concat!("sql/", stringify!($name), ".sql"))),)*
                    asks: asks(tables),
                }
            }
        }
    };
}

statements! {
    insert join part create_row take retake confirm heartbeat refill look free renew renew_readers renew_one release release_and_tell hand_on pass keep raise force leave abandon list
    sweep_watermark sweep sweep_places settings set_longest_lease set_quarantine doubt open_at_once mark quarantine clock
    version writers notify health room identity highest_token reset_watermark reset_tokens
}

/// What a session of our own pool is told first.
pub(super) fn own_session(timeout: Duration) -> SqlStr {
    let limit = timeout.as_millis().to_string();
    let lines = include_str!("sql/own_session.sql").lines().filter(|line| is_sent(line));
    AssertSqlSafe(lines.collect::<String>().replace("{limit}", &limit)).into_sql_str()
}

fn filled(tables: &Tables, text: &str) -> String {
    let text = PARTS.iter().fold(text.to_owned(), |text, (part, sql)| text.replace(part, sql));
    tables.fill(&text, '"')
}

/// Cloning it does not copy the text. The comments, which name the arguments, are left out.
pub fn shared(tables: &Tables, text: &str) -> SqlStr {
    let lines = text.lines().filter(|line| is_sent(line));
    let text: Arc<str> = filled(tables, &lines.collect::<Vec<_>>().join("\n")).into();
    AssertSqlSafe(text).into_sql_str()
}

/// The tables of a store.
pub(super) const STORE: [&str; 4] = ["{settings}", "{locks}", "{places}", "{marker}"];

/// The SQL that makes the tables.
pub(super) fn schema(tables: &Tables, longest_lease: i64) -> String {
    let text = include_str!("sql/schema.sql")
        .replace("{owners}", &owners(&STORE))
        .replace("{longest_lease}", &longest_lease.to_string());
    filled(tables, &text)
}

/// The SQL that upgrades older tables. It comes last, since others wait for what it locks.
pub(super) fn upgrade(tables: &Tables) -> String {
    filled(tables, include_str!("sql/upgrade.sql"))
}

/// Why tables of another role's are refused.
fn theirs(names: &[&str]) -> String {
    let oid = |name: &&str| format!("pg_catalog.to_regclass('{name}')::pg_catalog.oid");
    let tables: Vec<_> = names.iter().map(oid).collect();
    include_str!("sql/theirs.sql").replace("{tables}", &tables.join(", "))
}

/// Asks for these tables before a statement names one: see `connection/found.rs`.
pub fn exists(tables: &Tables, names: &[&str]) -> SqlStr {
    let is_there = |name: &&str| format!("pg_catalog.to_regclass('{name}') IS NOT NULL");
    let found: Vec<_> = names.iter().map(is_there).collect();
    let text = include_str!("sql/exists.sql")
        .replace("{found}", &format!("ARRAY[{}]", found.join(", ")))
        .replace("{theirs}", theirs(names).trim_end());
    shared(tables, &text)
}

/// Refuses them, in SQL of several statements.
#[must_use]
pub fn owners(names: &[&str]) -> String {
    include_str!("sql/owners.sql").replace("{theirs}", theirs(names).trim_end())
}

/// The SQL that makes the table of the fence.
pub(super) fn fence_schema(tables: &Tables) -> String {
    filled(tables, &format!("{}{}", include_str!("sql/fence.sql"), owners(&["{fence}"])))
}

/// The same, where others may do so at once. Answers why the table is refused: an error would end the transaction that this
/// is in.
pub(super) fn make_fence(tables: &Tables) -> SqlStr {
    let text = include_str!("sql/make_fence.sql");
    let text = text.replace("{fence.sql}", include_str!("sql/fence.sql").trim_end());
    shared(tables, &format!("{text}{}", theirs(&["{fence}"])))
}

/// The fence's statement.
pub(super) fn admit(tables: &Tables) -> SqlStr {
    shared(tables, include_str!("sql/admit.sql"))
}
