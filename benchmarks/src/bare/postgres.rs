//! The upsert and the conditional update that any lock in a table of PostgreSQL has to make.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, PgPool};

use super::OWNER;

/// A table of its own, and its statements.
#[derive(Clone, Debug)]
pub struct Postgres {
    pool: PgPool,
    upsert: Arc<str>,
    update: Arc<str>,
}

impl Postgres {
    /// Makes the table `name`, of which `kind` is `UNLOGGED` or nothing.
    pub async fn new(pool: &PgPool, name: &str, kind: &str) -> Self {
        let make = format!(
            "CREATE {kind} TABLE {name} (name text PRIMARY KEY, owner text, token bigint, \
             expires bigint) WITH (fillfactor = 50)"
        );
        sqlx::query(AssertSqlSafe(make)).execute(pool).await.unwrap();
        let upsert = format!(
            "INSERT INTO {name} AS l VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO UPDATE \
             SET owner = $2, token = greatest($3, l.token + 1), expires = $4 \
             WHERE l.owner IS NULL OR l.expires <= $5 RETURNING token"
        );
        let update = format!(
            "UPDATE {name} SET owner = NULL WHERE name = $1 AND owner = $2 RETURNING token"
        );
        Self { pool: pool.clone(), upsert: upsert.into(), update: update.into() }
    }

    /// Takes and gives back.
    pub async fn pair(self) {
        let taken: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(self.upsert))
            .bind("job")
            .bind(OWNER)
            .bind(1_i64)
            .bind(20_i64)
            .bind(10_i64)
            .fetch_all(&self.pool)
            .await
            .unwrap();
        assert_eq!(taken.len(), 1);
        let update = sqlx::query_scalar(AssertSqlSafe(self.update));
        let freed: Vec<i64> = update.bind("job").bind(OWNER).fetch_all(&self.pool).await.unwrap();
        assert_eq!(freed.len(), 1);
    }
}
