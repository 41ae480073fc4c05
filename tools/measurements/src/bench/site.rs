//! A store of each kind on a server that the benchmark starts.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, Init, LockClient};
use servers::{
    Etcd, EtcdOptions, Mariadb, MariadbOptions, Postgres, PostgresOptions, Redis, RedisOptions,
    Server, ZooKeeper, ZooKeeperOptions,
};

use super::machine::{own_processor_time, processor_time};

/// A store, and its servers. They end when this is dropped.
pub struct Site {
    url: String,
    /// The store in memory, which all clients share.
    shared: Option<Arc<dyn Backend>>,
    /// Lists the processes of the servers, and keeps the servers alive.
    processes: Box<dyn Fn() -> Vec<u32>>,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("url", &self.url).finish_non_exhaustive()
    }
}

fn served<S: Server + 'static>(url: String, server: S) -> Site {
    let processes = move || server.process().tree().unwrap_or_default();
    Site { url, shared: None, processes: Box::new(processes) }
}

impl Site {
    /// The stores that a benchmark tries if no store is named. [`start`](Self::start) also knows
    /// `redlock`.
    pub const KINDS: [&str; 7] =
        ["memory", "sqlite", "redis", "etcd", "zookeeper", "postgres", "mysql"];

    /// Starts the servers of a store, with room for some hundreds of clients.
    pub async fn start(kind: &str) -> Self {
        let site = match kind {
            "memory" => {
                let shared = Some(leasehold::open("memory:").await.unwrap());
                Self { url: "memory:".to_owned(), shared, processes: Box::new(Vec::new) }
            }
            "sqlite" => {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", folder.path().join("locks.db").display());
                let none = move || {
                    let _kept = &folder;
                    Vec::new()
                };
                Self { url, shared: None, processes: Box::new(none) }
            }
            "redis" => {
                let server = Redis::start(RedisOptions::new()).await.unwrap();
                served(format!("redis://{}", server.address()), server)
            }
            "redlock" => {
                let nodes = Redis::start_many(5, RedisOptions::new()).await.unwrap();
                let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
                let url = format!("redlock://{}", hosts.join(","));
                let tree = |node: &Redis| node.process().tree().unwrap_or_default();
                let processes = move || nodes.iter().flat_map(tree).collect();
                Self { url, shared: None, processes: Box::new(processes) }
            }
            "etcd" => {
                let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
                let url = format!("etcd://{}", etcd.endpoints()[0]);
                let processes = move || etcd.members()[0].process().tree().unwrap_or_default();
                Self { url, shared: None, processes: Box::new(processes) }
            }
            "zookeeper" => {
                let zookeeper = ZooKeeper::single(ZooKeeperOptions::new()).await.unwrap();
                let url = format!("zookeeper://{}?tick=200ms", zookeeper.endpoints()[0]);
                let server = move || zookeeper.members()[0].process().tree().unwrap_or_default();
                Self { url, shared: None, processes: Box::new(server) }
            }
            "postgres" => {
                let options = PostgresOptions::new().line("max_connections = 2500");
                let server = Postgres::start(options).await.unwrap();
                served(format!("postgres://postgres@{}/postgres", server.address()), server)
            }
            "mysql" => {
                let options = MariadbOptions::new()
                    .flag("--innodb-flush-log-at-trx-commit=1")
                    .flag("--max-connections=1200");
                let server = Mariadb::start(options).await.unwrap();
                served(format!("mysql://root@{}/test", server.address()), server)
            }
            other => panic!("{other} must be redlock or one of {:?}", Self::KINDS),
        };
        site.store().await.init(&Init::new().with_first_use(true)).await.unwrap();
        site
    }

    /// The URL of the store.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A new connection; in memory the shared store.
    pub async fn store(&self) -> Arc<dyn Backend> {
        match &self.shared {
            Some(shared) => Arc::clone(shared),
            None => leasehold::open(self.url.clone()).await.unwrap(),
        }
    }

    /// A client with a new connection.
    pub async fn client(&self) -> LockClient {
        LockClient::new(self.store().await)
    }

    /// Processor time of this process, and of the servers.
    #[must_use]
    pub fn busy(&self) -> [Duration; 2] {
        [own_processor_time(), (self.processes)().into_iter().map(processor_time).sum()]
    }
}
