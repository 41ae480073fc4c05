//! ShedLock's table in PostgreSQL.
//!
//! Its columns are VARCHAR. The statements compare them as text. Otherwise PostgreSQL would prefer
//! an operator that another role defined for VARCHAR to its own.

use std::{collections::HashSet, time::Duration};

use async_trait::async_trait;
use backend_sql::shared::{
    Described, Gate, Others, Tables, general,
    postgres::{self, Sessions, exists, first, found, other_schema, others, owners},
    span,
};
use lock_core::{Error, Grant};
use sqlx::{Row as _, SqlStr, postgres::PgRow};

use super::{
    server::{Arg, NameState, Server, StoredSettings},
    statements::{Names, Statements},
};

const FILES: [&str; 4] = [
    include_str!("postgres/schema.sql"),
    include_str!("postgres/attempt.sql"),
    include_str!("postgres/hold.sql"),
    include_str!("postgres/admin.sql"),
];

/// Creates the tables.
pub(super) fn schema(tables: &Tables, names: &Names, longest_micros: i64) -> String {
    let refused = owners(tables, &[&names.lock, &names.companion, &names.settings]);
    let text = other_schema(tables, Others { files: &FILES, values: &names.values() });
    text.replace("{owners}", refused.trim_end())
        .replace("{longest_lease}", &longest_micros.to_string())
}

#[derive(Debug)]
pub(super) struct Postgres {
    sessions: Sessions,
    described: Described,
}

impl Postgres {
    pub(super) fn new(sessions: Sessions, described: Described) -> Self {
        Self { sessions, described }
    }
}

fn bound<'a>(args: &[Arg<'a>]) -> Vec<postgres::Arg<'a>> {
    let each = args.iter().map(|arg| match *arg {
        Arg::Text(text) => postgres::Arg::Text(text),
        Arg::Number(number) => postgres::Arg::Number(number),
        Arg::Span(span) => postgres::Arg::Span(span),
    });
    each.collect()
}

fn state(row: &PgRow) -> Result<NameState, sqlx::Error> {
    Ok(NameState {
        name: row.try_get(0)?,
        locked_by: row.try_get(1)?,
        remaining: span(row.try_get(2)?),
        owner: row.try_get(3)?,
        label: row.try_get(4)?,
        token: row.try_get(5)?,
    })
}

#[async_trait]
impl Server for Postgres {
    type Statement = SqlStr;

    const SHORTEST_LEASE: Duration = postgres::SHORTEST_LEASE;
    const TIMES: &'static [&'static str] =
        &["timestamp without time zone", "timestamp(6) without time zone"];
    const NEEDS_ROWS: bool = false;
    const PADS: bool = false;
    const QUOTE: char = '"';

    fn statements(&self, names: &Names) -> Statements<SqlStr> {
        let files = Others { files: &FILES, values: &names.values() };
        others(&self.described.tables, files, |named| Statements::new(named))
    }

    fn gate(&self) -> &Gate {
        &self.sessions.gate
    }

    fn broken(&self) -> u64 {
        self.sessions.broken()
    }

    async fn run_once(&self, sql: &SqlStr, args: &[Arg<'_>]) -> Result<Option<i64>, Error> {
        first(&self.sessions.run_once(sql, &bound(args)).await?)
    }

    async fn run_repeatable(&self, sql: &SqlStr, args: &[Arg<'_>]) -> Result<Option<i64>, Error> {
        first(&self.sessions.run_repeatable(sql, &bound(args)).await?)
    }

    async fn number(&self, sql: &SqlStr) -> Result<Option<i64>, Error> {
        let rows = self.sessions.run_repeatable(sql, &[]).await?;
        Ok(first::<Option<i64>>(&rows)?.flatten())
    }

    async fn states(&self, sql: &SqlStr, args: &[Arg<'_>]) -> Result<Vec<NameState>, Error> {
        let rows = self.sessions.run_repeatable(sql, &bound(args)).await?;
        rows.iter().map(state).collect::<Result<_, _>>().map_err(general)
    }

    async fn settings(&self, sql: &SqlStr) -> Result<Option<StoredSettings>, Error> {
        let rows = self.sessions.run_repeatable(sql, &[]).await?;
        let read = |row: &PgRow| {
            let [version, longest_lease] = [row.try_get(0)?, row.try_get(1)?];
            Ok(StoredSettings {
                version,
                longest_lease: span(longest_lease),
                identity: row.try_get(2)?,
            })
        };
        rows.first().map(read).transpose().map_err(general)
    }

    async fn pairs(&self, sql: &SqlStr) -> Result<Vec<(String, String)>, Error> {
        let rows = self.sessions.run_repeatable(sql, &[]).await?;
        let read = |row: &PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
        rows.iter().map(read).collect::<Result<_, _>>().map_err(general)
    }

    async fn renew(&self, sql: &SqlStr, grants: &[(&Grant, Duration)]) -> Result<Vec<bool>, Error> {
        let names: Vec<_> = grants.iter().map(|(grant, _)| grant.name.as_str()).collect();
        let owners: Vec<_> = grants.iter().map(|(grant, _)| grant.owner.to_string()).collect();
        let asked: Vec<_> = owners.iter().map(String::as_str).collect();
        let leases: Vec<_> = grants.iter().map(|(_, lease)| *lease).collect();
        let args = [
            postgres::Arg::Texts(&names),
            postgres::Arg::Texts(&asked),
            postgres::Arg::Spans(&leases),
        ];
        let rows = self.sessions.run_repeatable(sql, &args).await?;
        let renewed: Result<HashSet<String>, _> = rows.iter().map(|row| row.try_get(0)).collect();
        let renewed = renewed.map_err(general)?;
        Ok(owners.iter().map(|owner| renewed.contains(owner)).collect())
    }

    async fn existing_tables(&self, names: &Names) -> Result<[bool; 3], Error> {
        let tables = [&*names.lock, &*names.companion, &*names.settings];
        let rows =
            self.sessions.run_repeatable(&exists(&self.described.tables, &tables), &[]).await?;
        Ok(found(&rows)?.try_into().unwrap_or_default())
    }

    async fn create_tables(&self, names: &Names, longest_micros: i64) -> Result<(), Error> {
        self.sessions.script(schema(&self.described.tables, names, longest_micros)).await
    }

    async fn durability_problem(&self, sql: &SqlStr) -> Result<Option<String>, Error> {
        let settings = self.pairs(sql).await?;
        let lost = settings.iter().find(|(_, value)| value == "off");
        Ok(lost.map(|(name, _)| {
            format!("{name} is off: a crash may lose locks that are still held; set it to on")
        }))
    }

    async fn close(&self) {
        self.sessions.close().await;
    }
}
