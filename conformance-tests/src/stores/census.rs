//! What a store has in it that does not go by itself.

use std::net::SocketAddr;

use async_trait::async_trait;
use leasehold::etcd::etcd_client::{Client, GetOptions};
use sqlx::{AssertSqlSafe, MySqlPool, PgPool};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::{SetUpError, proof::Census};

/// Keys without an expiry within about a minute; tombstones of abandoned attempts have one.
const LASTING: &str = "local lasting = 0 \
    for _, key in ipairs(redis.call('KEYS', '*')) do \
        local left = redis.call('PTTL', key) \
        if left == -1 or left > 90000 then lasting = lasting + 1 end \
    end \
    return lasting";

/// Keys of Redis.
pub(super) struct Redis {
    pub(super) nodes: Vec<SocketAddr>,
    /// The fence's record and the user's data, where there is a fence.
    pub(super) per_name: u64,
}

#[async_trait]
impl Census for Redis {
    async fn lasting(&self) -> Result<u64, SetUpError> {
        let mut sum = 0;
        for node in &self.nodes {
            let mut stream = BufReader::new(TcpStream::connect(node).await?);
            let command =
                format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{LASTING}\r\n$1\r\n0\r\n", LASTING.len());
            stream.get_mut().write_all(command.as_bytes()).await?;
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let count = line.trim_end().strip_prefix(':');
            let count = count.and_then(|count| count.parse::<u64>().ok());
            sum += count.ok_or_else(|| format!("Redis answered {line:?}"))?;
        }
        Ok(sum)
    }

    fn allowed(&self, names: usize) -> u64 {
        self.per_name * names as u64
    }
}

/// Keys of etcd without a lease.
pub(super) struct Etcd {
    pub(super) endpoints: Vec<String>,
}

#[async_trait]
impl Census for Etcd {
    async fn lasting(&self) -> Result<u64, SetUpError> {
        let client = Client::connect(&self.endpoints, None).await?;
        let all = GetOptions::new().with_all_keys();
        let answer = client.kv_client().get("", Some(all)).await?;
        Ok(answer.kvs().iter().filter(|kv| kv.lease() == 0).count() as u64)
    }

    fn allowed(&self, names: usize) -> u64 {
        // The fence's record and the user's data.
        2 * names as u64
    }
}

const ROWS: &str = "SELECT count(*) FROM leasehold_locks";

macro_rules! rows {
    ($name:ident, $pool:ty) => {
        /// Rows of locks. A released one leaves its token until the next sweep.
        pub(super) struct $name(pub(super) $pool);

        #[async_trait]
        impl Census for $name {
            async fn lasting(&self) -> Result<u64, SetUpError> {
                let rows: i64 = sqlx::query_scalar(AssertSqlSafe(ROWS)).fetch_one(&self.0).await?;
                Ok(rows.cast_unsigned())
            }

            fn allowed(&self, names: usize) -> u64 {
                names as u64
            }
        }
    };
}

rows!(Postgres, PgPool);
rows!(Mysql, MySqlPool);
