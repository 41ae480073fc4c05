//! The fence: the check of the token in the database that the lock protects.

use lock_core::{Error, FenceError, FencingToken, Stale};
use sqlx::{AssertSqlSafe, SqlStr, SqliteConnection};

use super::statements;
use crate::{error::general, tables::Tables};

/// Admits writes whose token is not stale, inside the transaction that makes them.
///
/// ```no_run
/// # async fn example(pool: sqlx::SqlitePool, token: lock_core::FencingToken)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use backend_sql::sqlite::SqliteFence;
///
/// let fence = SqliteFence::new("leasehold")?;
/// let mut connection = pool.acquire().await?;
/// fence.create(&mut connection).await?;
///
/// let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
/// fence.admit(&mut transaction, "account 7", token).await?;
/// // … writes to account 7 …
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
///
/// Begin the transaction by `BEGIN IMMEDIATE`: one that has read before it writes may be refused by
/// SQLite as busy.
///
/// The fence is as safe as the database that it is in: mount the folder of the file and not the
/// file alone, give it no hard links, and do not delete it, its `-wal` or its `-shm` while it is in
/// use.
#[derive(Debug)]
pub struct SqliteFence {
    create: String,
    admit: SqlStr,
    admitted: SqlStr,
}

impl SqliteFence {
    /// A fence in the table `PREFIX_fence`.
    ///
    /// # Errors
    /// `InvalidInput` for a prefix that is not 1 to 40 of the characters `A-Z a-z 0-9 _`.
    pub fn new(table_prefix: &str) -> Result<Self, Error> {
        let tables = Tables::new(table_prefix)?;
        let [admit, admitted] = statements::fence(&tables);
        Ok(Self { create: statements::fence_schema(&tables), admit, admitted })
    }

    /// Creates the table, if there is none.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn create(&self, connection: &mut SqliteConnection) -> Result<(), Error> {
        let sql = AssertSqlSafe(self.create.clone());
        sqlx::raw_sql(sql).execute(connection).await.map(drop).map_err(error)
    }

    /// Admits `token` to `resource`, unless a larger token was admitted before. After any error,
    /// roll back.
    ///
    /// The answer counts when the transaction commits. If the transaction rolls back, the token was
    /// not admitted.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if a larger token was admitted before; [`FenceError::Store`] as the
    /// database reports.
    ///
    /// # Cancel safety
    /// As of any statement in your transaction.
    pub async fn admit(
        &self,
        connection: &mut SqliteConnection,
        resource: &str,
        token: FencingToken,
    ) -> Result<(), FenceError> {
        let admitted = sqlx::query_scalar::<_, i64>(self.admit.clone())
            .bind(resource)
            .bind(token.get() as i64)
            // Read to the end: without a transaction, only the end reports a commit that failed.
            .fetch_all(&mut *connection)
            .await
            .map_err(error)?;
        if !admitted.is_empty() {
            return Ok(());
        }
        let highest = sqlx::query_scalar::<_, i64>(self.admitted.clone())
            .bind(resource)
            .fetch_one(&mut *connection)
            .await
            .map_err(error)?;
        let admitted =
            u64::try_from(highest).ok().and_then(FencingToken::new).unwrap_or(FencingToken::MAX);
        Err(Stale::new(resource, token, admitted).into())
    }
}

fn error(error: sqlx::Error) -> Error {
    general(error).at("sqlite", "fence")
}
