//! The trait of a database: what ShedLock's layout needs of it.

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

/// What is known of one name: a row of ShedLock's table, and our own companion of it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) locked_by: String,
    pub(super) remaining: Duration,
    /// The label of the last holder that is a client of ours.
    pub(super) owner: Option<String>,
    pub(super) label: Option<String>,
    /// `None` if our table has no row of the name.
    pub(super) token: Option<i64>,
}

/// The row of settings.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) version: i64,
    pub(super) longest_lease: Duration,
    pub(super) identity: String,
}

/// A database, by its sessions.
#[async_trait]
pub(super) trait Server: Debug + Send + Sync + Sized + 'static {
    /// Ready to run.
    type Statement: Debug + Send + Sync;

    /// The shortest lease: some round trips on a busy machine.
    const SHORTEST_LEASE: Duration;

    /// The types of `lock_until` and `locked_at` that keep the server's UTC as it is written, finely enough.
    const TIMES: &'static [&'static str];

    /// Whether the rows of a name must be there before it can be taken.
    const NEEDS_ROWS: bool;

    /// Whether names that differ in spaces at their ends may be one to a collation.
    const PADS: bool;

    /// The mark that stands around the names of tables and schemas.
    const QUOTE: char;

    /// The statements.
    fn statements(&self, names: &Names) -> Statements<Self::Statement>;

    /// Which calls may have how many connections.
    fn gate(&self) -> &Gate;

    /// How often a statement was repeated that may have been carried out.
    fn broken(&self) -> u64;

    /// Runs a write that must not be carried out twice unnoticed. Returns the number that it reports, or that it has done
    /// something; `None` if it did nothing.
    async fn once(&self, sql: &Self::Statement, args: &[Arg<'_>]) -> Result<Option<i64>, Error>;

    /// The same for a write that may be carried out twice.
    async fn again(&self, sql: &Self::Statement, args: &[Arg<'_>]) -> Result<Option<i64>, Error>;

    /// Reads one number.
    async fn number(&self, sql: &Self::Statement) -> Result<Option<i64>, Error>;

    /// Reads rows of names.
    async fn seen(&self, sql: &Self::Statement, args: &[Arg<'_>]) -> Result<Vec<Seen>, Error>;

    /// Reads the settings; `None` if their row is gone.
    async fn stored(&self, sql: &Self::Statement) -> Result<Option<Stored>, Error>;

    /// The names and types of the columns of ShedLock's table, or other pairs.
    async fn pairs(&self, sql: &Self::Statement) -> Result<Vec<(String, String)>, Error>;

    /// Renews each grant by the lease beside it. Returns for each whether it was there. A grant whose row another transaction has
    /// locked counts as not there.
    async fn renew(
        &self,
        sql: &Self::Statement,
        grants: &[(&Grant, Duration)],
    ) -> Result<Vec<bool>, Error>;

    /// Whether ShedLock's table, our table beside it and the settings exist. Call it before a statement names one of them: it
    /// refuses a table that could run another role's code in our name.
    async fn found(&self, names: &Names) -> Result<[bool; 3], Error>;

    /// Makes the missing tables.
    async fn make(&self, names: &Names, longest_micros: i64) -> Result<(), Error>;

    /// Why a crash may lose what was committed, if it may. Refuses a server whose time zone would shift the times.
    async fn doubt(&self) -> Result<Option<String>, Error>;

    /// Ends connections.
    async fn close(&self);
}
