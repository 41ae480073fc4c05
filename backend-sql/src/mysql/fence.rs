//! The fence: the check of the token in the database that the lock protects.

use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{Error, ErrorKind, FenceError, FencingToken, Stale};
use sqlx::{AssertSqlSafe, MySqlConnection, Row as _, SqlSafeStr as _, SqlStr};

use super::{
    connection::error::failure,
    statements::{Argument, Statement, fence as statements, fence_schema, refuse_view},
};
use crate::{error::general, tables::Tables};

/// The longest resource, in bytes, as in `fence.sql`.
const LONGEST: usize = 512;

/// Admits writes whose token is not stale, inside the transaction that makes them.
///
/// ```no_run
/// # async fn example(pool: sqlx::MySqlPool, token: lock_core::FencingToken)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use backend_sql::mysql::MysqlFence;
///
/// let fence = MysqlFence::new("leasehold")?;
/// let mut transaction = pool.begin().await?;
/// fence.admit(&mut transaction, "account 7", token).await?;
/// // … writes to account 7 …
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct MysqlFence {
    table: String,
    exists: Statement,
    /// Whether the table was found, and is no view.
    checked: AtomicBool,
    create: SqlStr,
    admit: Statement,
}

impl MysqlFence {
    /// A fence in the table `PREFIX_fence`.
    ///
    /// # Errors
    /// `InvalidInput` for a prefix that is not 1 to 40 of the characters `A-Z a-z 0-9 _`.
    pub fn new(table_prefix: &str) -> Result<Self, Error> {
        let tables = Tables::new(table_prefix)?;
        let create = AssertSqlSafe(fence_schema(&tables)).into_sql_str();
        let [exists, admit] = statements(&tables);
        let table = tables.fill("{fence}", '`').trim_matches('`').to_owned();
        Ok(Self { table, exists, checked: AtomicBool::new(false), create, admit })
    }

    /// Refuses a view, before any statement names it.
    async fn check(&self, connection: &mut MySqlConnection) -> Result<(), Error> {
        let query = self.exists.with(&[Argument::Bytes(self.table.as_bytes())]);
        let row = query.fetch_optional(connection).await.map_err(error)?;
        let found = row.map(|row| row.try_get(0)).transpose().map_err(general)?;
        let found = refuse_view(&self.table, found).map_err(|error| error.at("mysql", "fence"))?;
        self.checked.store(found, Ordering::Relaxed);
        Ok(())
    }

    /// Creates the table, if there is none. MySQL then commits an open transaction: call this
    /// outside of any.
    ///
    /// # Errors
    /// `Config` for a view of that name, which could run the code of another user with the rights
    /// of yours. Otherwise as the database reports.
    pub async fn create(&self, connection: &mut MySqlConnection) -> Result<(), Error> {
        self.check(connection).await?;
        sqlx::raw_sql(self.create.clone()).execute(connection).await.map(drop).map_err(error)
    }

    /// Admits `token` to `resource`, unless a larger token was admitted before. After any error,
    /// roll back. This is one statement. It also locks the resource's row until the transaction
    /// ends. Before the first one, the fence checks that the table is not a view: so make one fence
    /// for each database.
    ///
    /// The answer counts when the transaction commits. If the transaction rolls back, the token was
    /// not admitted.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if a larger token was admitted before. [`FenceError::Store`]:
    /// `InvalidInput` for a resource of more than 512 bytes; otherwise as of
    /// [`create`](Self::create). After a deadlock MySQL has rolled the transaction back: begin
    /// again.
    ///
    /// # Cancel safety
    /// As of any statement in your transaction.
    pub async fn admit(
        &self,
        connection: &mut MySqlConnection,
        resource: &str,
        token: FencingToken,
    ) -> Result<(), FenceError> {
        if resource.len() > LONGEST {
            let length = resource.len();
            let message = format!(
                "a resource of {length} bytes is not allowed; it must have at most {LONGEST}"
            );
            return Err(Error::new(ErrorKind::InvalidInput, message).at("mysql", "fence").into());
        }
        if !self.checked.load(Ordering::Relaxed) {
            self.check(connection).await?;
        }
        let offered = token.get().cast_signed();
        let query =
            self.admit.with(&[Argument::Bytes(resource.as_bytes()), Argument::Number(offered)]);
        let answer = query.execute(connection).await.map_err(error)?;
        let admitted = FencingToken::new(answer.last_insert_id()).unwrap_or(FencingToken::MAX);
        if admitted == token {
            return Ok(());
        }
        Err(Stale::new(resource, token, admitted).into())
    }
}

fn error(error: sqlx::Error) -> Error {
    failure(error).in_a_transaction().at("mysql", "fence")
}
