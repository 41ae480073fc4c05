//! The trait of a database: what ShedLock's layout needs from it.

use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;
use backend_sql::shared::Gate;
use lock_core::{Error, Grant};

use super::statements::{Names, Statements};

/// One argument of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg<'a> {
    Text(&'a str),
    Number(i64),
    Span(Duration),
}

/// The state of a name: its row in ShedLock's table, and its row in leasehold's companion table.
#[derive(Debug)]
pub(super) struct NameState {
    pub(super) name: String,
    pub(super) locked_by: String,
    pub(super) remaining: Duration,
    /// The last holder that was a leasehold client.
    pub(super) owner: Option<String>,
    pub(super) label: Option<String>,
    /// `None` if the companion table has no row for the name.
    pub(super) token: Option<i64>,
}

/// The row of settings.
#[derive(Debug)]
pub(super) struct StoredSettings {
    pub(super) version: i64,
    pub(super) longest_lease: Duration,
    pub(super) identity: String,
}

/// A database.
#[async_trait]
pub(super) trait Server: Debug + Send + Sync + Sized + 'static {
    /// A prepared statement or its text.
    type Statement: Debug + Send + Sync;

    /// The shortest lease: some round trips on a busy machine.
    const SHORTEST_LEASE: Duration;

    /// The column types of `lock_until` and `locked_at` that keep the server's UTC unchanged and
    /// with enough digits.
    const TIMES: &'static [&'static str];

    /// Whether the rows of a name must exist before the name can be acquired.
    const NEEDS_ROWS: bool;

    /// Whether a collation may treat names as equal that differ only in trailing spaces.
    const PADS: bool;

    /// The quote around names of tables and schemas.
    const QUOTE: char;

    /// The statements.
    fn statements(&self, names: &Names) -> Statements<Self::Statement>;

    /// The limit of connections per kind of call.
    fn gate(&self) -> &Gate;

    /// How often a statement was repeated although the first try may have been carried out.
    fn broken(&self) -> u64;

    /// Runs a write that must not be carried out twice unnoticed. Returns the number that it
    /// reports, or 1 if it only changed a row; `None` if it changed nothing.
    async fn run_once(&self, sql: &Self::Statement, args: &[Arg<'_>])
    -> Result<Option<i64>, Error>;

    /// The same for a write that may be carried out twice.
    async fn run_repeatable(
        &self,
        sql: &Self::Statement,
        args: &[Arg<'_>],
    ) -> Result<Option<i64>, Error>;

    /// Reads one number.
    async fn number(&self, sql: &Self::Statement) -> Result<Option<i64>, Error>;

    /// Reads the states of names.
    async fn states(
        &self,
        sql: &Self::Statement,
        args: &[Arg<'_>],
    ) -> Result<Vec<NameState>, Error>;

    /// Reads the settings; `None` if their row is gone.
    async fn settings(&self, sql: &Self::Statement) -> Result<Option<StoredSettings>, Error>;

    /// Reads pairs of texts, such as the names and types of columns.
    async fn pairs(&self, sql: &Self::Statement) -> Result<Vec<(String, String)>, Error>;

    /// Renews each grant with its lease. Returns for each whether it was renewed. A grant whose row
    /// another transaction has locked counts as not renewed.
    async fn renew(
        &self,
        sql: &Self::Statement,
        grants: &[(&Grant, Duration)],
    ) -> Result<Vec<bool>, Error>;

    /// Whether ShedLock's table, the companion table and the settings exist. Call this before any
    /// statement that uses one of them: it refuses a table that could run another role's code with
    /// the rights of this one.
    async fn existing_tables(&self, names: &Names) -> Result<[bool; 3], Error>;

    /// Creates the missing tables.
    async fn create_tables(&self, names: &Names, longest_micros: i64) -> Result<(), Error>;

    /// Why a crash may lose committed data; `None` if it may not.
    async fn durability_problem(&self, sql: &Self::Statement) -> Result<Option<String>, Error>;

    /// Closes the connections.
    async fn close(&self);
}
