//! The upsert and the conditional update that any lock in a table of MariaDB has to make.

use sqlx::MySqlPool;

use super::OWNER;

/// A table of its own.
#[derive(Clone, Debug)]
pub struct Mysql(MySqlPool);

impl Mysql {
    /// Makes the table.
    pub async fn new(pool: &MySqlPool) -> Self {
        let make = "CREATE TABLE floor (name VARBINARY(255) PRIMARY KEY, owner VARBINARY(32), \
                    token BIGINT NOT NULL, expires BIGINT NOT NULL) ENGINE = InnoDB";
        sqlx::query(make).execute(pool).await.unwrap();
        Self(pool.clone())
    }

    /// Takes and gives back.
    pub async fn pair(self) {
        let upsert = "INSERT INTO floor VALUES (?, ?, LAST_INSERT_ID(?), ?) ON DUPLICATE KEY \
                      UPDATE token = IF(expires <= ?, LAST_INSERT_ID(GREATEST(?, token + 1)), \
                      token), owner = IF(expires <= ?, ?, owner), \
                      expires = IF(expires <= ?, ?, expires)";
        let taken = sqlx::query(upsert)
            .bind("job")
            .bind(OWNER)
            .bind(1_i64)
            .bind(20_i64)
            .bind(10_i64)
            .bind(1_i64)
            .bind(10_i64)
            .bind(OWNER)
            .bind(10_i64)
            .bind(20_i64)
            .execute(&self.0)
            .await
            .unwrap();
        assert_ne!(taken.last_insert_id(), 0);
        let update = "UPDATE floor SET owner = NULL, expires = 0 WHERE name = ? AND owner = ?";
        let freed = sqlx::query(update).bind("job").bind(OWNER).execute(&self.0).await.unwrap();
        assert_eq!(freed.rows_affected(), 1);
    }
}
