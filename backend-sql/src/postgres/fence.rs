//! The fence: the check of the token in the database that the lock protects.

use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{Error, ErrorKind, FenceError, FencingToken, Stale};
use sqlx::{PgConnection, SqlStr};

use super::{
    connection::{
        error::failure,
        sessions::first,
        table_check::{found, stored},
    },
    statements,
};
use crate::tables::Tables;

/// Admits writes whose token is not stale, inside the transaction that makes them.
///
/// ```no_run
/// # async fn example(pool: sqlx::PgPool, token: lock_core::FencingToken)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use backend_sql::postgres::PostgresFence;
///
/// let fence = PostgresFence::new("leasehold")?;
/// let mut transaction = pool.begin().await?;
/// fence.admit(&mut transaction, "account 7", token).await?;
/// // … writes to account 7 …
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct PostgresFence {
    exists: SqlStr,
    /// Whether the table exists and passed the check of its owner.
    checked: AtomicBool,
    create: SqlStr,
    admit: SqlStr,
}

impl PostgresFence {
    /// A fence in the table `PREFIX_fence` of the schema `public`.
    ///
    /// # Errors
    /// `InvalidInput` for a prefix that is not 1 to 40 of the characters `A-Z a-z 0-9 _`.
    pub fn new(table_prefix: &str) -> Result<Self, Error> {
        Self::in_schema(statements::DEFAULT_SCHEMA, table_prefix)
    }

    /// The same in another schema: see [`PostgresBuilder::schema`](super::PostgresBuilder::schema).
    ///
    /// # Errors
    /// `InvalidInput` for a schema or a prefix that is not 1 to 40 of the characters `A-Z a-z 0-9
    /// _`.
    pub fn in_schema(schema: &str, table_prefix: &str) -> Result<Self, Error> {
        let tables = Tables::new(table_prefix)?.in_schema(schema)?;
        Ok(Self {
            exists: statements::exists(&tables, &["{fence}"]),
            checked: AtomicBool::new(false),
            create: statements::fence_schema_concurrent(&tables),
            admit: statements::admit(&tables),
        })
    }

    /// Refuses a table of another role before any statement names it.
    async fn check(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let rows = sqlx::raw_sql(self.exists.clone()).fetch_all(connection).await.map_err(error)?;
        let found = found(&rows).and_then(|found| stored(&rows).map(|()| found));
        let found = found.map_err(|error| error.at("postgres", "fence"))?;
        self.checked.store(found == [true], Ordering::Relaxed);
        Ok(())
    }

    /// Creates the table, if there is none. Others may do so at the same time. If you do it in a
    /// transaction, they wait until it ends.
    ///
    /// # Errors
    /// `Config` for an unlogged table, for a table of a role that could run code in the name of
    /// this one, and for a search path with a schema before `pg_catalog`: your transaction goes on.
    /// Otherwise as the database reports, which ends the transaction.
    pub async fn create(&self, connection: &mut PgConnection) -> Result<(), Error> {
        self.check(connection).await?;
        let rows = sqlx::raw_sql(self.create.clone()).fetch_all(connection).await.map_err(error)?;
        match first::<String>(&rows)? {
            Some(refusal) => Err(Error::new(ErrorKind::Config, refusal).at("postgres", "fence")),
            None => Ok(()),
        }
    }

    /// Admits `token` to `resource`, unless a larger token was admitted before. After any error,
    /// roll back. This is one statement. It also locks the resource's row until the transaction
    /// ends. Before the first one, the fence checks which role owns the table: so make one fence
    /// for each database.
    ///
    /// The answer counts when the transaction commits. If the transaction rolls back, the token was
    /// not admitted.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if a larger token was admitted before. [`FenceError::Store`]: `Config`
    /// as of [`create`](Self::create), and for an unlogged table, which a crash would empty;
    /// otherwise as the database reports.
    ///
    /// # Cancel safety
    /// As of any statement in your transaction.
    pub async fn admit(
        &self,
        connection: &mut PgConnection,
        resource: &str,
        token: FencingToken,
    ) -> Result<(), FenceError> {
        if !self.checked.load(Ordering::Relaxed) {
            self.check(&mut *connection).await?;
        }
        let query = sqlx::query_scalar::<_, Option<i64>>(self.admit.clone());
        let query = query.bind(resource).bind(token.get().cast_signed());
        let highest = query.fetch_all(&mut *connection).await.map_err(error)?;
        let Some(&Some(highest)) = highest.first() else {
            // Since it was checked. A statement that finds the reason fails by it.
            self.check(connection).await?;
            let message = "the table of the fence is not stored as it must be; roll back";
            return Err(Error::new(ErrorKind::Config, message).at("postgres", "fence").into());
        };
        let highest = u64::try_from(highest).ok();
        let admitted = highest.and_then(FencingToken::new).unwrap_or(FencingToken::MAX);
        if admitted == token {
            return Ok(());
        }
        Err(Stale::new(resource, token, admitted).into())
    }
}

fn error(error: sqlx::Error) -> Error {
    failure(error).in_a_transaction().at("postgres", "fence")
}
