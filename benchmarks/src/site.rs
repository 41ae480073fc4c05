//! A store of each kind, with a server of its own.

use std::{path::Path, sync::Arc, time::Duration};

use conformance_tests::kit::{
    Etcd, EtcdOptions, Mariadb, MariadbOptions, Postgres, PostgresOptions, Redis, RedisOptions,
    Server,
};
use lock_core::{Backend, Init, LockClient};

use crate::processor_time;

/// One store, and its server's processes.
pub struct Site {
    url: String,
    /// The store in memory is shared by its clients.
    shared: Option<Arc<dyn Backend>>,
    /// Those of the server, which lives as long as this.
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
    /// The kinds there are.
    pub const KINDS: [&str; 6] = ["memory", "sqlite", "redis", "etcd", "postgres", "mysql"];

    /// Starts it, with room for some hundreds of clients.
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
            "etcd" => {
                let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
                let url = format!("etcd://{}", etcd.endpoints()[0]);
                let processes = move || etcd.members()[0].process().tree().unwrap_or_default();
                Self { url, shared: None, processes: Box::new(processes) }
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
            other => panic!("{other} is no store; there are {:?}", Self::KINDS),
        };
        site.store().await.init(&Init::new().with_first_use(true)).await.unwrap();
        site
    }

    /// Of the store.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A connection of its own, except in memory.
    pub async fn store(&self) -> Arc<dyn Backend> {
        match &self.shared {
            Some(shared) => Arc::clone(shared),
            None => leasehold::open(self.url.clone()).await.unwrap(),
        }
    }

    /// A client of its own.
    pub async fn client(&self) -> LockClient {
        LockClient::new(self.store().await)
    }

    /// Processor time of this process, and of the server's.
    #[must_use]
    pub fn busy(&self) -> [Duration; 2] {
        let processes = (self.processes)().into_iter();
        // One that has ended meanwhile counts no more.
        let there = processes.filter(|pid| Path::new(&format!("/proc/{pid}/task")).exists());
        [processor_time(std::process::id()), there.map(processor_time).sum()]
    }
}
