//! ShedLock's table in MySQL and MariaDB.

use std::time::Duration;

use async_trait::async_trait;
use backend_sql::shared::{
    Described, Gate, Others, Tables, general, micros,
    mysql::{self, Argument, Durability, Statement, insert_id, other_schema, others, refuse_view},
    span,
};
use lock_core::{Error, ErrorKind, Grant};
use sqlx::{
    AssertSqlSafe, Row as _, SqlSafeStr as _,
    mysql::{MySqlQueryResult, MySqlRow},
};

use super::{
    server::{
        Arg::{self, Span, Text},
        NameState, Server, StoredSettings,
    },
    statements::{Names, Statements},
};
use crate::tunables::ROUNDED;

const FILES: [&str; 4] = [
    include_str!("mysql/schema.sql"),
    include_str!("mysql/attempt.sql"),
    include_str!("mysql/hold.sql"),
    include_str!("mysql/admin.sql"),
];

/// Creates the tables.
pub(super) fn schema(tables: &Tables, names: &Names, longest_micros: i64) -> String {
    let text = other_schema(tables, Others { files: &FILES, values: &names.values() });
    text.replace("{longest_lease}", &longest_micros.to_string())
}

#[derive(Debug)]
pub(super) struct Mysql {
    server: mysql::Server,
    described: Described,
    exists: Statement,
}

impl Mysql {
    pub(super) fn new(server: mysql::Server, described: Described) -> Self {
        let exists = others(&described.tables, Others::default(), |named| named("exists"));
        Self { server, described, exists }
    }
}

fn bound<'a>(args: &[Arg<'a>]) -> Vec<Argument<'a>> {
    let each = args.iter().map(|arg| match *arg {
        Text(text) => Argument::Text(text),
        Arg::Number(number) => Argument::Number(number),
        Span(span) => Argument::Number(micros(span + ROUNDED)),
    });
    each.collect()
}

/// The number that a write reports, or 1 if it only changed a row.
fn reported(answer: &MySqlQueryResult) -> Option<i64> {
    insert_id(answer).or((answer.rows_affected() > 0).then_some(1))
}

/// A text column. The server may send it as bytes.
fn text(row: &MySqlRow, at: usize) -> Result<Option<String>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get_unchecked(at)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn number(row: &MySqlRow, at: usize) -> Result<Option<i64>, sqlx::Error> {
    row.try_get_unchecked(at)
}

fn state(row: &MySqlRow) -> Result<NameState, sqlx::Error> {
    Ok(NameState {
        name: text(row, 0)?.unwrap_or_default(),
        locked_by: text(row, 1)?.unwrap_or_default(),
        remaining: span(number(row, 2)?.unwrap_or(0)),
        owner: text(row, 3)?,
        label: text(row, 4)?,
        token: number(row, 5)?,
    })
}

fn pair(row: &MySqlRow) -> Result<(String, String), sqlx::Error> {
    Ok((text(row, 0)?.unwrap_or_default(), text(row, 1)?.unwrap_or_default()))
}

#[async_trait]
impl Server for Mysql {
    type Statement = Statement;

    const SHORTEST_LEASE: Duration = mysql::SHORTEST_LEASE;
    const TIMES: &'static [&'static str] = &[
        "datetime(3)",
        "datetime(4)",
        "datetime(5)",
        "datetime(6)",
        "timestamp(3)",
        "timestamp(4)",
        "timestamp(5)",
        "timestamp(6)",
    ];
    const NEEDS_ROWS: bool = true;
    const PADS: bool = true;
    const QUOTE: char = '`';

    fn statements(&self, names: &Names) -> Statements<Statement> {
        let files = Others { files: &FILES, values: &names.values() };
        others(&self.described.tables, files, |named| Statements::new(named))
    }

    fn gate(&self) -> &Gate {
        &self.server.gate
    }

    fn broken(&self) -> u64 {
        self.server.broken()
    }

    async fn run_once(&self, sql: &Statement, args: &[Arg<'_>]) -> Result<Option<i64>, Error> {
        Ok(reported(&self.server.execute(sql, &bound(args)).await?))
    }

    async fn run_repeatable(
        &self,
        sql: &Statement,
        args: &[Arg<'_>],
    ) -> Result<Option<i64>, Error> {
        Ok(reported(&self.server.execute_repeatable(sql, &bound(args)).await?))
    }

    async fn number(&self, sql: &Statement) -> Result<Option<i64>, Error> {
        let rows = self.server.rows(sql, &[]).await?;
        rows.first().map_or(Ok(None), |row| number(row, 0)).map_err(general)
    }

    async fn states(&self, sql: &Statement, args: &[Arg<'_>]) -> Result<Vec<NameState>, Error> {
        let rows = self.server.rows(sql, &bound(args)).await?;
        rows.iter().map(state).collect::<Result<_, _>>().map_err(general)
    }

    async fn settings(&self, sql: &Statement) -> Result<Option<StoredSettings>, Error> {
        let rows = self.server.rows(sql, &[]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if number(row, 3).map_err(general)? != Some(1) {
            let message = "autocommit is off in the server's sessions, so that no statement would ever end its \
                           transaction; it must be on";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let read = || {
            let [version, longest] = [number(row, 0)?.unwrap_or(0), number(row, 1)?.unwrap_or(0)];
            let identity = text(row, 2)?.unwrap_or_default();
            Ok(StoredSettings { version, longest_lease: span(longest), identity })
        };
        read().map(Some).map_err(general)
    }

    async fn pairs(&self, sql: &Statement) -> Result<Vec<(String, String)>, Error> {
        let rows = self.server.rows(sql, &[]).await?;
        rows.iter().map(pair).collect::<Result<_, _>>().map_err(general)
    }

    /// One by one, in the same order in all clients, so that two clients never wait for each
    /// other's rows.
    async fn renew(
        &self,
        sql: &Statement,
        grants: &[(&Grant, Duration)],
    ) -> Result<Vec<bool>, Error> {
        let mut renewed = Vec::with_capacity(grants.len());
        for (grant, lease) in grants {
            let owner = grant.owner.to_string();
            let args = [Text(grant.name.as_str()), Text(&owner), Span(*lease)];
            renewed.push(self.run_repeatable(sql, &args).await?.is_some());
        }
        Ok(renewed)
    }

    async fn existing_tables(&self, names: &Names) -> Result<[bool; 3], Error> {
        let mut found = [false; 3];
        for (at, name) in [&names.lock, &names.companion, &names.settings].into_iter().enumerate() {
            let name = name.trim_matches('`');
            let rows = self.server.rows(&self.exists, &[Argument::Text(name)]).await?;
            let kind = rows.first().map_or(Ok(None), |row| number(row, 0)).map_err(general)?;
            found[at] = refuse_view(name, kind)?;
        }
        Ok(found)
    }

    async fn create_tables(&self, names: &Names, longest_micros: i64) -> Result<(), Error> {
        let text = schema(&self.described.tables, names, longest_micros);
        self.server.script(&AssertSqlSafe(text).into_sql_str()).await
    }

    async fn durability_problem(&self, sql: &Statement) -> Result<Option<String>, Error> {
        let variables = self.pairs(sql).await?;
        let pairs = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Ok(Durability::read(pairs).doubt)
    }

    async fn close(&self) {
        self.server.close().await;
    }
}
