//! The statements: the text of the SQL files with the tables' names filled in.

use std::sync::Arc;

use lock_core::{Error, ErrorKind, Mode, OwnerId};
use sqlx::{
    AssertSqlSafe, MySql, SqlSafeStr as _, SqlStr, mysql::MySqlArguments, query, query::Query,
};

use crate::{
    dialect::READER,
    tables::{Tables, is_sent},
    tunables::{ENTRY_LIFE, REMEMBERED, mysql::SEEN_AHEAD},
};

/// The server's clock when it began with the statement, whatever the session's time zone. It is the
/// same all through a statement. One that had to wait for a row therefore counts from before its
/// wait, as its client does.
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

/// Whether the row may be taken, or is our own, and keeps us not away.
const TAKES: &str = include_str!("sql/takes.sql");

/// Whether the row may be shared, or is already.
const JOINS: &str = include_str!("sql/joins.sql");

/// Whether the owner ?2 is one of those who share the row.
const HAS_READER: &str = include_str!("sql/has_reader.sql");

/// Whether the row `l` is that of the grant `g`.
const RENEWS: &str = include_str!("sql/renews.sql");

/// What those who share the row take up in it.
const READERS: &str = "IF(owner = {shared}, LENGTH(readers) DIV {reader}, NULL) AS readers";

/// Whether the owner has no tombstone in the row.
const NOT_ABANDONED: &str = include_str!("sql/not_abandoned.sql");

/// Whether the row's tombstones, if any, are so old that no statement of theirs is under way.
const NO_TOMBSTONES: &str =
    "({locks}.buried_at IS NULL OR {locks}.buried_at < {now} - {remembered})";

/// Whether the first live entry belongs to another owner than ?2.
const BEHIND: &str = include_str!("sql/behind.sql");

/// Whether the entry `q` is alive.
const ALIVE: &str = include_str!("sql/alive.sql");

/// A batch of locks in one argument.
const BATCH: &str = "JSON_TABLE(?1, '$[*]' COLUMNS (name VARCHAR(510) PATH '$[0]', \
    owner VARCHAR(32) PATH '$[1]', lease BIGINT PATH '$[2]')) AS g";

/// What replaces `?1` and so on.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// Bytes.
    Bytes(&'a [u8]),
    /// JSON, which MySQL does not take as bytes.
    Text(&'a str),
    /// A number.
    Number(i64),
    /// Null.
    Null,
}

/// A statement and which argument goes where: MySQL's own have no numbers.
#[derive(Debug)]
pub struct Statement {
    text: SqlStr,
    order: Vec<usize>,
}

impl Statement {
    /// Of a text with `{locks}`, `{settings}`, `{batch}` and other parts in braces, and `?1` and so
    /// on for arguments.
    pub fn new(tables: &Tables, text: &str) -> Self {
        let (text, order) = unnumbered(&filled(tables, text));
        // Our own text but for the tables' names, which were checked. Shared: a clone copies
        // nothing.
        Self { text: AssertSqlSafe(Arc::<str>::from(text)).into_sql_str(), order }
    }

    /// Ready to run. An argument that is missing is null.
    pub(super) fn with<'q>(&self, arguments: &[Argument<'_>]) -> Query<'q, MySql, MySqlArguments> {
        let each = self.order.iter().map(|at| arguments.get(*at));
        each.fold(query(self.text.clone()), |query, argument| match argument {
            Some(Argument::Bytes(bytes)) => query.bind(bytes.to_vec()),
            Some(Argument::Text(text)) => query.bind((*text).to_owned()),
            Some(Argument::Number(number)) => query.bind(*number),
            Some(Argument::Null) | None => query.bind(None::<i64>),
        })
    }
}

/// Replaces `?1` and so on by `?`. Also returns the numbers in their order, counted from 0.
fn unnumbered(text: &str) -> (String, Vec<usize>) {
    let (mut plain, mut order) = (String::with_capacity(text.len()), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find('?') {
        plain.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        order.push(rest[..digits].parse::<usize>().map_or(usize::MAX, |number| number - 1));
        rest = &rest[digits..];
    }
    plain.push_str(rest);
    (plain, order)
}

/// The statements of one store.
macro_rules! statements {
    ($($name:ident)*) => {
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: Statement,)*
        }

        impl Statements {
            pub(super) fn new(tables: &Tables) -> Self {
                Self {
                    $($name: Statement::new(
                        tables,
                        include_str!(concat!("sql/", stringify!($name), ".sql")),
                    ),)*
                }
            }
        }
    };
}

statements! {
    insert join part create_row take read_row renew renewed renew_one release hand_on keep raise force list abandon free_names
    enter heartbeat abandon_entry leave dead_entries forget_entries forgotten checked watermark sweep_watermark sweep settings set_longest_lease durability clock exists identity highest_token version
}

/// Without comments, which would be sent each time and hold marks of arguments.
fn filled(tables: &Tables, text: &str) -> String {
    let lines = text.lines().filter(|line| is_sent(line));
    let text = lines.collect::<Vec<_>>().join("\n");
    let (life, far) = (ENTRY_LIFE.as_micros().to_string(), SEEN_AHEAD.to_string());
    let (reader, most) = (READER.to_string(), (Mode::MOST_READERS * READER).to_string());
    let shared = format!("'{}'", OwnerId::READERS);
    let remembered = REMEMBERED.as_micros().to_string();
    let parts = [
        ("{behind}", BEHIND),
        ("{alive}", ALIVE),
        ("{life}", &life),
        ("{far}", &far),
        ("{takes}", TAKES),
        ("{joins}", JOINS),
        ("{has_reader}", HAS_READER),
        ("{renews}", RENEWS),
        ("{readers}", READERS),
        ("{shared}", &shared),
        ("{reader}", &reader),
        ("{most}", &most),
        ("{not_abandoned}", NOT_ABANDONED),
        ("{no_tombstones}", NO_TOMBSTONES),
        ("{remembered}", &remembered),
        ("{batch}", BATCH),
        ("{now}", NOW),
    ];
    let text = parts.iter().fold(text, |text, (part, sql)| text.replace(part, sql));
    tables.fill(&text, '`')
}

/// The SQL that makes the tables.
pub(super) fn schema(tables: &Tables, longest_lease: i64) -> String {
    let text = include_str!("sql/schema.sql");
    tables.fill(&text.replace("{longest_lease}", &longest_lease.to_string()), '`')
}

/// The SQL that makes the table of the fence.
pub(super) fn fence_schema(tables: &Tables) -> String {
    format!("{};\n", tables.fill(include_str!("sql/fence_schema.sql"), '`').trim_end())
}

/// Whether a table is there, by the answer to `exists.sql`. Refuses a view: with SQL SECURITY
/// INVOKER it runs functions of the user who made it with the rights of whoever reads it. A trigger
/// runs with those of the user who made it.
///
/// # Errors
/// `Config` for a view.
pub fn refuse_view(table: &str, found: Option<i64>) -> Result<bool, Error> {
    if found == Some(0) {
        let message = format!(
            "{table:?} is no table, but may be a view, which could run the code of another user with the rights of this one; \
             remove it, and let nobody else have CREATE VIEW and DROP in this database"
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(found.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_where_their_numbers_are() {
        let (plain, order) = unnumbered("a = ?2 AND b = ?10 OR c = ?1");
        assert_eq!((plain.as_str(), order), ("a = ? AND b = ? OR c = ?", vec![1, 9, 0]));
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        let statements = Statements::new(&Tables::new("app").unwrap());
        let text = statements.insert.text.as_str();
        assert!(!text.contains(['{', '}']) && !text.contains("-- ?1"), "{text}");
        assert!(text.contains("LOCATE(?, `app_locks`.buried)"), "{text}");
        assert!(statements.insert.order.iter().all(|at| *at < 5));
    }
}
