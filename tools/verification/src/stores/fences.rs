//! The fences of the stores, in front of user data in the same store.

use std::path::Path;

use async_trait::async_trait;
use leasehold::{
    etcd::{EtcdFence, etcd_client},
    mysql::MysqlFence,
    postgres::PostgresFence,
    redis::RedisFence,
    sqlite::SqliteFence,
};
use lock_core::{FenceError, FencingToken};
use sqlx::{AssertSqlSafe, MySqlPool, PgPool, SqlitePool};

use crate::proof::OwnFence;
use conformance_tests::SetUpError;

const PREFIX: &str = "proof";

pub(super) struct Redis(RedisFence);

impl Redis {
    pub(super) async fn connect(url: &str) -> Result<Self, SetUpError> {
        Ok(Self(RedisFence::connect(url).await?))
    }
}

#[async_trait]
impl OwnFence for Redis {
    async fn admit(&self, resource: &str, token: FencingToken) -> Result<bool, SetUpError> {
        match self.0.set(&format!("data {resource}"), token.to_string(), token).await {
            Ok(()) => Ok(true),
            Err(FenceError::Stale(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) struct Etcd {
    client: etcd_client::Client,
    fence: EtcdFence,
}

impl Etcd {
    pub(super) async fn connect(endpoints: &[String]) -> Result<Self, SetUpError> {
        let client = etcd_client::Client::connect(endpoints, None).await?;
        Ok(Self { client, fence: EtcdFence::new("proof fences/") })
    }
}

#[async_trait]
impl OwnFence for Etcd {
    async fn admit(&self, resource: &str, token: FencingToken) -> Result<bool, SetUpError> {
        let put = etcd_client::TxnOp::put(format!("proof data/{resource}"), "written", None);
        let guarded = self.fence.guard(resource, token, [put]);
        let answer = self.client.kv_client().txn(guarded).await?;
        match self.fence.admitted(resource, token, &answer) {
            Ok(()) => Ok(true),
            Err(FenceError::Stale(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The fence of a database, with a user's write in the same transaction.
macro_rules! in_a_database {
    ($name:ident, $fence:ty, $pool:ty, $begin:literal, $write:literal) => {
        pub(super) struct $name {
            pool: $pool,
            fence: $fence,
        }

        impl $name {
            pub(super) async fn on(pool: $pool) -> Result<Self, SetUpError> {
                let fence = <$fence>::new(PREFIX)?;
                let mut connection = pool.acquire().await?;
                fence.create(&mut connection).await?;
                let table =
                    "CREATE TABLE proof_data (resource VARCHAR(200) PRIMARY KEY, token BIGINT)";
                sqlx::query(table).execute(&mut *connection).await?;
                drop(connection);
                Ok(Self { pool, fence })
            }
        }

        #[async_trait]
        impl OwnFence for $name {
            async fn admit(&self, resource: &str, token: FencingToken) -> Result<bool, SetUpError> {
                let mut transaction = self.pool.begin_with($begin).await?;
                match self.fence.admit(&mut transaction, resource, token).await {
                    Err(FenceError::Stale(_)) => {
                        transaction.rollback().await?;
                        return Ok(false);
                    }
                    admitted => admitted?,
                }
                let write = AssertSqlSafe($write);
                let write = sqlx::query(write).bind(resource).bind(token.get().cast_signed());
                write.execute(&mut *transaction).await?;
                transaction.commit().await?;
                Ok(true)
            }
        }
    };
}

in_a_database!(
    Sqlite,
    SqliteFence,
    SqlitePool,
    "BEGIN IMMEDIATE",
    "REPLACE INTO proof_data VALUES (?, ?)"
);
in_a_database!(Mysql, MysqlFence, MySqlPool, "BEGIN", "REPLACE INTO proof_data VALUES (?, ?)");
in_a_database!(
    Postgres,
    PostgresFence,
    PgPool,
    "BEGIN",
    "INSERT INTO proof_data VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token"
);

impl Sqlite {
    pub(super) async fn open(path: &Path) -> Result<Self, SetUpError> {
        Self::on(SqlitePool::connect(&format!("sqlite:{}?mode=rwc", path.display())).await?).await
    }
}
