//! Starts the stores of a migration, and makes its URL.
use std::{any::Any, time::Duration};

use leasehold::Init;
use servers::{
    Etcd, EtcdOptions, Mariadb, MariadbOptions, Postgres, PostgresOptions, Redis, RedisOptions,
    Server as _,
};

use conformance_tests::SetUpError;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SQLite, a file.
    Sqlite,
    /// One Redis.
    Redis,
    /// Redlock with three Redis.
    Redlock,
    /// etcd with one member.
    Etcd,
    /// One PostgreSQL.
    Postgres,
    /// One MariaDB.
    Mysql,
}

/// It flushes what it has written before it answers, and so keeps its records.
fn durable_redis() -> RedisOptions {
    RedisOptions::new().aof().line("appendfsync always")
}

/// A store that runs: its URL, and what keeps it running.
pub type Running = (String, Box<dyn Any + Send + Sync>);

impl Kind {
    /// One of each family.
    pub const ALL: [Self; 6] =
        [Self::Sqlite, Self::Redis, Self::Redlock, Self::Etcd, Self::Postgres, Self::Mysql];

    /// Starts a store with the longest lease `longest` (default: that of the kind).
    ///
    /// # Errors
    /// As a server's start, or the store's.
    pub async fn start(self, longest: Option<Duration>) -> Result<Running, SetUpError> {
        let running: Running = match self {
            Self::Sqlite => {
                let folder = tempfile::tempdir()?;
                let url = format!("sqlite:{}", folder.path().join("locks.db").display());
                (url, Box::new(folder))
            }
            Self::Redis => {
                let server = Redis::start(durable_redis()).await?;
                (format!("redis://{}", server.address()), Box::new(server))
            }
            Self::Redlock => {
                let servers = Redis::start_many(3, RedisOptions::new()).await?;
                let hosts: Vec<_> =
                    servers.iter().map(|server| server.address().to_string()).collect();
                // On a busy machine slow nodes must not look like dead nodes.
                let options = "timeout=10s&node_timeout=5s";
                (format!("redlock://{}?{options}", hosts.join(",")), Box::new(servers))
            }
            Self::Etcd => {
                let etcd = Etcd::single(EtcdOptions::new()).await?;
                let endpoints: Vec<_> = etcd.endpoints().iter().map(ToString::to_string).collect();
                (format!("etcd://{}", endpoints.join(",")), Box::new(etcd))
            }
            Self::Postgres => {
                let server = Postgres::start(PostgresOptions::new().line("fsync = on")).await?;
                let url = format!("postgres://postgres@{}/postgres", server.address());
                (url, Box::new(server))
            }
            Self::Mysql => {
                let server = Mariadb::start(MariadbOptions::new()).await?;
                let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
                (url, Box::new(server))
            }
        };
        let init = Init::new().with_first_use(true).with_longest_lease(longest);
        let store = leasehold::open(&running.0).await?;
        store.init(&init).await?;
        store.close().await;
        Ok(running)
    }
}

/// The URL of a migration between two stores.
pub fn url(phase: leasehold::migration::Phase, from: &str, to: &str) -> String {
    format!("migrate:{phase}?from={}&to={}", encoded(from), encoded(to))
}

/// Percent-encodes all characters but ASCII letters and digits.
pub fn encoded(url: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    url.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
