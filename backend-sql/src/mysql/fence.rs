//! The user's side: a fence in the database that it protects.

use std::sync::Arc;

use lock_core::{Error, ErrorKind, FencingToken, Stale};
use sqlx::{AssertSqlSafe, MySqlConnection, SqlSafeStr as _, SqlStr};

use super::error::failure;
use crate::tables::Tables;

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
/// fence.admit(&mut transaction, "account 7", token).await??;
/// // … writes to account 7 …
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct MysqlFence {
    create: SqlStr,
    admit: SqlStr,
}

impl MysqlFence {
    /// A fence in the table `PREFIX_fence`.
    ///
    /// # Errors
    /// `InvalidInput` for a prefix that is not 1 to 40 of the characters `A-Z a-z 0-9 _`.
    pub fn new(table_prefix: &str) -> Result<Self, Error> {
        let tables = Tables::new(table_prefix)?;
        let filled = |text: &str| {
            let text: Arc<str> = tables.fill(text, '`').into();
            AssertSqlSafe(text).into_sql_str()
        };
        Ok(Self {
            create: filled(include_str!("sql/fence.sql")),
            admit: filled(include_str!("sql/admit.sql")),
        })
    }

    /// Creates the table, if it is not there. MySQL commits an open transaction on that: call it
    /// outside of any.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn create(&self, connection: &mut MySqlConnection) -> Result<(), Error> {
        sqlx::raw_sql(self.create.clone()).execute(connection).await.map(drop).map_err(error)
    }

    /// Admits `token` to `resource`, or tells that a larger one was there before: then roll back.
    /// One statement, which also locks the resource's row until the transaction ends.
    ///
    /// The answer holds when the transaction commits; a token that was admitted by one that rolls
    /// back was not admitted.
    ///
    /// # Errors
    /// `InvalidInput` for a resource of more than 512 bytes; otherwise as the database reports. After
    /// a deadlock MySQL has rolled the transaction back: begin it anew. *Cancel safety*: as of any
    /// statement in your transaction.
    pub async fn admit(
        &self,
        connection: &mut MySqlConnection,
        resource: &str,
        token: FencingToken,
    ) -> Result<Result<(), Stale>, Error> {
        if resource.len() > LONGEST {
            let length = resource.len();
            let message = format!(
                "a resource of {length} bytes is not allowed; it must have at most {LONGEST}"
            );
            return Err(Error::new(ErrorKind::InvalidInput, message).at("mysql", "fence"));
        }
        let offered = token.get().cast_signed();
        let query = sqlx::query(self.admit.clone());
        let query = query.bind(resource.as_bytes()).bind(offered).bind(offered);
        let answer = query.execute(connection).await.map_err(error)?;
        let admitted = FencingToken::new(answer.last_insert_id()).unwrap_or(FencingToken::MAX);
        if admitted == token {
            return Ok(Ok(()));
        }
        Ok(Err(Stale::new(resource, token, admitted)))
    }
}

fn error(error: sqlx::Error) -> Error {
    failure(error).in_a_transaction().at("mysql", "fence")
}
