//! Checks the tables before a statement first names one. A table, a view or a policy of another
//! role could run code in our name.

use lock_core::{Error, ErrorKind};
use sqlx::{Row as _, postgres::PgRow};

use crate::error::general;

/// Whether each table exists, by the answer to the statement `exists`. Refuses tables of another
/// role, and a search path with which PostgreSQL may prefer another role's operators to its own.
///
/// # Errors
/// `Config`, with what is refused.
pub fn found(rows: &[PgRow]) -> Result<Vec<bool>, Error> {
    let read = |row: &PgRow| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    let read: Option<Result<_, sqlx::Error>> = rows.first().map(read);
    let (found, path, refusal): (_, Vec<String>, Option<String>) =
        read.transpose().map_err(general)?.unwrap_or_default();
    // PostgreSQL finds no operators in the temporary schema.
    let mut schemas = path.iter().filter(|schema| !schema.starts_with("pg_temp"));
    if let Some(schema) = schemas.next().filter(|schema| *schema != "pg_catalog") {
        let message = format!(
            "search_path names the schema {schema:?} before pg_catalog, so that a role that may create there could \
             replace what our statements use; leave pg_catalog out of it, and it is searched first"
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    refusal.map_or(Ok(found), |refusal| Err(Error::new(ErrorKind::Config, refusal)))
}

/// Refuses a table that a loss of data would leave with old locks, or would empty although it must
/// outlive it, by the answer to the statement `exists`.
///
/// # Errors
/// `Config`, with the remedy.
pub(crate) fn stored(rows: &[PgRow]) -> Result<(), Error> {
    let refusal: Option<Result<Option<String>, _>> = rows.first().map(|row| row.try_get(3));
    let refusal = refusal.transpose().map_err(general)?.flatten();
    refusal.map_or(Ok(()), |refusal| Err(Error::new(ErrorKind::Config, refusal)))
}
