//! Counts the permanent records of a store: those that do not expire by themselves.

use std::net::SocketAddr;

use async_trait::async_trait;
use leasehold::etcd::etcd_client::{Client, GetOptions};
use sqlx::{MySqlPool, PgPool, SqlitePool};

use crate::proof::{RecordCount, RecordCounter};
use conformance_tests::SetUpError;

/// Counts the keys that do not expire within about a minute. The tombstones of abandoned attempts
/// expire.
const LASTING: &str = "local lasting, bytes = 0, 0 \
    for _, key in ipairs(redis.call('KEYS', '*')) do \
        local left = redis.call('PTTL', key) \
        if left == -1 or left > 90000 then \
            lasting, bytes = lasting + 1, bytes + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) \
        end \
    end \
    return {lasting, bytes}";

/// The largest size of a fence's record, of the user's data beside it, or of the watermark of a
/// name.
const RECORD: u64 = 512;
/// The largest size of the tombstones in a row: it keeps those of its name's abandoned attempts for
/// a while.
const TOMBSTONES: u64 = 33_000;

fn records(records: u64, bytes_each: u64) -> RecordCount {
    RecordCount { records, bytes: records * bytes_each }
}

/// Keys of Redis.
pub(super) struct Redis {
    pub(super) nodes: Vec<SocketAddr>,
    /// Permanent records for each name: its record, and the fence's record and the user's data, if
    /// there is a fence.
    pub(super) per_name: u64,
}

#[async_trait]
impl RecordCounter for Redis {
    async fn count(&self) -> Result<RecordCount, SetUpError> {
        let mut sum = RecordCount::default();
        for node in &self.nodes {
            let client = redis::Client::open(format!("redis://{node}"))?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            let mut count = redis::cmd("EVAL");
            let count = count.arg(LASTING).arg(0).query_async(&mut connection);
            let (records, bytes): (u64, u64) = count.await?;
            sum.records += records;
            sum.bytes += bytes;
        }
        Ok(sum)
    }

    fn allowed(&self, names: usize) -> RecordCount {
        let mut allowed = records(self.per_name * names as u64, RECORD);
        // The record of the epoch also grows.
        allowed.bytes += self.nodes.len() as u64 * (names as u64 + 1) * RECORD;
        allowed
    }
}

/// Keys of etcd without a lease.
pub(super) struct Etcd {
    pub(super) endpoints: Vec<String>,
}

#[async_trait]
impl RecordCounter for Etcd {
    async fn count(&self) -> Result<RecordCount, SetUpError> {
        let client = Client::connect(&self.endpoints, None).await?;
        let all = GetOptions::new().with_all_keys();
        let answer = client.kv_client().get("", Some(all)).await?;
        let mut sum = RecordCount::default();
        for kv in answer.kvs().iter().filter(|kv| kv.lease() == 0) {
            sum.records += 1;
            sum.bytes += (kv.key().len() + kv.value().len()) as u64;
        }
        Ok(sum)
    }

    fn allowed(&self, names: usize) -> RecordCount {
        // The fence's record and the user's data.
        records(2 * names as u64, RECORD)
    }
}

macro_rules! rows {
    ($name:ident, $pool:ty, $each:expr, $bytes:literal) => {
        /// Rows of locks. The row of a released lock stays until the next sweep.
        pub(super) struct $name(pub(super) $pool);

        #[async_trait]
        impl RecordCounter for $name {
            async fn count(&self) -> Result<RecordCount, SetUpError> {
                const COUNT: &str = concat!("SELECT count(*), ", $bytes, " FROM leasehold_locks");
                let (records, bytes): (i64, Option<i64>) =
                    sqlx::query_as(COUNT).fetch_one(&self.0).await?;
                let bytes = bytes.unwrap_or(0).cast_unsigned();
                Ok(RecordCount { records: records.cast_unsigned(), bytes })
            }

            fn allowed(&self, names: usize) -> RecordCount {
                records(names as u64, $each)
            }
        }
    };
}

rows!(Postgres, PgPool, RECORD + TOMBSTONES, "sum(pg_column_size(leasehold_locks.*))");
rows!(
    Mysql,
    MySqlPool,
    RECORD + TOMBSTONES,
    "CAST(sum(50 + length(name) + ifnull(length(owner), 0) + ifnull(length(label), 0) \
     + ifnull(length(buried), 0)) AS SIGNED)"
);
rows!(
    Sqlite,
    SqlitePool,
    RECORD,
    "sum(50 + length(name) + ifnull(length(owner), 0) + ifnull(length(label), 0) + length(epoch))"
);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::Future;

    use leasehold::etcd::etcd_client::PutOptions;
    use sqlx::Executor as _;

    use super::*;
    use crate::stores::made;
    use servers::{
        Etcd as EtcdServer, EtcdOptions, Mariadb, MariadbOptions, Postgres as PostgresServer,
        PostgresOptions, Redis as RedisServer, RedisOptions, Server as _,
    };

    const MUCH: usize = 100_000;

    /// Asserts that the counter notices when an existing record grows.
    async fn grows<Fut: Future<Output = ()>>(
        counter: &dyn RecordCounter,
        grow: impl FnOnce() -> Fut,
    ) {
        let before = counter.count().await.unwrap();
        assert_eq!(before.records, 1, "{before}");
        assert!(!before.is_more_than(before, RecordCount::default()));
        grow().await;
        let (after, allowed) = (counter.count().await.unwrap(), counter.allowed(1));
        assert_eq!(after.records, 1, "{after}");
        assert!(after.is_more_than(before, allowed), "{before} became {after}; {allowed} allowed");
    }

    #[tokio::test]
    async fn a_key_of_redis_that_grows_is_seen() {
        let server = RedisServer::start(RedisOptions::new()).await.unwrap();
        server.cli(&["SET", "key", "short"]).await.unwrap();
        server.cli(&["SET", "of a moment", "short", "EX", "5"]).await.unwrap();
        let counter = Redis { nodes: vec![server.address()], per_name: 2 };
        let grow = async || {
            server.cli(&["SETRANGE", "key", "99999", "x"]).await.unwrap();
        };
        grows(&counter, grow).await;
    }

    #[tokio::test]
    async fn a_key_of_etcd_that_grows_is_seen() {
        let server = EtcdServer::single(EtcdOptions::new()).await.unwrap();
        let endpoints = server.endpoints().iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut client = Client::connect(&endpoints, None).await.unwrap();
        let lease = client.lease_grant(60, None).await.unwrap().id();
        client.put("leased", "short", Some(PutOptions::new().with_lease(lease))).await.unwrap();
        client.put("key", "short", None).await.unwrap();
        let grow = async || {
            client.clone().put("key", "x".repeat(MUCH), None).await.unwrap();
        };
        grows(&Etcd { endpoints }, grow).await;
    }

    #[tokio::test]
    async fn a_row_of_postgres_that_grows_is_seen() {
        let server = PostgresServer::start(PostgresOptions::new()).await.unwrap();
        let url = format!("postgres://postgres@{}/postgres", server.address());
        made(&url).await.unwrap();
        let pool = PgPool::connect(&url).await.unwrap();
        let row = "INSERT INTO leasehold_locks (name, token, version, expires, kept) \
                   VALUES ('a', 1, 1, now(), false)";
        pool.execute(row).await.unwrap();
        // Random text, which PostgreSQL cannot compress.
        let grow = "UPDATE leasehold_locks \
                    SET buried = (SELECT array_agg(md5(n::text)) FROM generate_series(1, 3000) n)";
        grows(&Postgres(pool.clone()), async || {
            pool.execute(grow).await.unwrap();
        })
        .await;
    }

    #[tokio::test]
    async fn a_row_of_mysql_that_grows_is_seen() {
        let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
        let url = format!("mysql://root@{}/test", server.address());
        made(&url).await.unwrap();
        let pool = MySqlPool::connect(&url).await.unwrap();
        let row = "INSERT INTO leasehold_locks (name, token, version, expires, kept) \
                   VALUES ('a', 1, 1, 0, 0)";
        pool.execute(row).await.unwrap();
        let grow = "UPDATE leasehold_locks SET buried = REPEAT('x', 60000)";
        grows(&Mysql(pool.clone()), async || {
            pool.execute(grow).await.unwrap();
        })
        .await;
    }

    #[tokio::test]
    async fn a_row_of_sqlite_that_grows_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        made(&url).await.unwrap();
        let pool = SqlitePool::connect(&url).await.unwrap();
        let row = "INSERT INTO leasehold_locks (name, token, version, lease, expires, epoch, kept) \
                   VALUES ('a', 1, 1, 0, 0, '', 0)";
        pool.execute(row).await.unwrap();
        let grow = "UPDATE leasehold_locks SET epoch = hex(zeroblob(500))";
        grows(&Sqlite(pool.clone()), async || {
            pool.execute(grow).await.unwrap();
        })
        .await;
    }
}
