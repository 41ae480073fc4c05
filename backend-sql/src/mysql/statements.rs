//! The statements: the text of the SQL files with the tables' names filled in.

use lock_core::{Error, ErrorKind, Mode, OwnerId};
use sqlx::{MySql, SqlStr, mysql::MySqlArguments, query, query::Query};

use crate::{
    mysql::{rows::READER, waiting::BELL},
    sql_files::{self, Others, SqlFiles, Syntax},
    tables::Tables,
    tunables::{CLAIM_WINDOW, ENTRY_LIFE, REMEMBERED, mysql::SEEN_AHEAD},
};

/// The server's clock when it began with the statement, whatever the session's time zone. It is the
/// same all through a statement. One that had to wait for a row therefore counts from before its
/// wait, as its client does.
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

const FILES: [&str; 10] = [
    include_str!("sql/schema.sql"),
    include_str!("sql/acquire.sql"),
    include_str!("sql/queue.sql"),
    include_str!("sql/release.sql"),
    include_str!("sql/renew.sql"),
    include_str!("sql/readers.sql"),
    include_str!("sql/admin.sql"),
    include_str!("sql/sweep.sql"),
    include_str!("sql/fence.sql"),
    include_str!("sql/record.sql"),
];

fn with_files<T>(tables: &Tables, read: impl FnOnce(&SqlFiles<'_>) -> T) -> T {
    with_more_files(tables, Others::default(), read)
}

fn with_more_files<T>(
    tables: &Tables,
    others: Others<'_>,
    read: impl FnOnce(&SqlFiles<'_>) -> T,
) -> T {
    let mut values = vec![
        ("now", NOW.to_owned()),
        ("life", ENTRY_LIFE.as_micros().to_string()),
        ("claim_window", CLAIM_WINDOW.as_micros().to_string()),
        ("remembered", REMEMBERED.as_micros().to_string()),
        ("far", SEEN_AHEAD.to_string()),
        ("bell", format!("'{BELL}'")),
        ("shared", format!("'{}'", OwnerId::READERS)),
        ("reader", READER.to_string()),
        ("most", (Mode::MOST_READERS * READER).to_string()),
    ];
    let syntax = Syntax { quote: '`', argument: |_| "?".to_owned() };
    let files = others.after(&FILES, &mut values);
    read(&SqlFiles::new(&files, &values, tables, syntax))
}

/// Reads statements of another crate by their names.
pub fn others<T>(
    tables: &Tables,
    others: Others<'_>,
    read: impl FnOnce(&dyn Fn(&str) -> Statement) -> T,
) -> T {
    with_more_files(tables, others, |files| read(&|name| files.statement(name).into()))
}

/// The SQL of another crate that makes its tables.
pub fn other_schema(tables: &Tables, others: Others<'_>) -> String {
    with_more_files(tables, others, |files| files.script("schema"))
}

/// The value of an argument.
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

/// A statement, and which argument each of its marks stands for: MySQL's marks have no numbers.
#[derive(Debug)]
pub struct Statement {
    text: SqlStr,
    order: Vec<usize>,
}

impl From<sql_files::Statement> for Statement {
    fn from(mut statement: sql_files::Statement) -> Self {
        let order = std::mem::take(&mut statement.order);
        Self { text: statement.into(), order }
    }
}

impl Statement {
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

sql_files::statements! {
    Statement, with_files():
    insert join make_room part create_row take read_row renew renewed renew_one release handoff hand_on keep raise reown force list abandon free_names
    enter read_place read_holder hang_bell ring_bell await_bell waited_for sessions most_sessions sessions_of_user heartbeat abandon_entry leave dead_entries forget_entries forgotten checked watermark sweep_watermark sweep settings set_longest_lease durability clock exists identity highest_token version
    write_record is_written read_record over_records forget_records
}

/// The SQL that makes the tables.
pub(super) fn schema(tables: &Tables, longest_lease: i64) -> String {
    let text = with_files(tables, |files| files.script("schema"));
    text.replace("{longest_lease}", &longest_lease.to_string())
}

/// The SQL that makes the table of the fence.
pub(super) fn fence_schema(tables: &Tables) -> String {
    let text = with_files(tables, |files| files.script("fence_schema"));
    format!("{};\n", text.trim_end())
}

/// The statements of the fence: whether its table exists, and admit.
pub(super) fn fence(tables: &Tables) -> [Statement; 2] {
    with_files(tables, |files| ["exists", "admit"].map(|name| files.statement(name).into()))
}

/// Whether a table is there, by the answer to the statement `exists`. Refuses a view: with SQL
/// SECURITY INVOKER it runs functions of the user who made it with the rights of whoever reads it.
/// A trigger runs with those of the user who made it.
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
    fn the_statements_as_they_are_sent_are_on_record() {
        let sent = with_files(&Tables::new("leasehold").unwrap(), |files| files.as_sent());
        sql_files::assert_on_record("mysql", &sent);
    }
}
