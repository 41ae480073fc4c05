//! A store of each kind, with a server of its own.

use std::{any::Any, sync::Arc, time::Duration};

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
    pid: Option<u32>,
    _kept: Box<dyn Any>,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("url", &self.url).finish_non_exhaustive()
    }
}

fn served<S: Server + 'static>(url: String, server: S) -> Site {
    let pid = server.process().pid().ok();
    Site { url, shared: None, pid, _kept: Box::new(server) }
}

impl Site {
    /// The kinds there are.
    pub const KINDS: [&str; 6] = ["memory", "sqlite", "redis", "etcd", "postgres", "mysql"];

    /// Starts it, with room for some hundreds of clients.
    pub async fn start(kind: &str) -> Self {
        let site = match kind {
            "memory" => {
                let shared = Some(leasehold::open("memory:").await.unwrap());
                Self { url: "memory:".to_owned(), shared, pid: None, _kept: Box::new(()) }
            }
            "sqlite" => {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", folder.path().join("locks.db").display());
                Self { url, shared: None, pid: None, _kept: Box::new(folder) }
            }
            "redis" => {
                let server = Redis::start(RedisOptions::new()).await.unwrap();
                served(format!("redis://{}", server.address()), server)
            }
            "etcd" => {
                let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
                let pid = etcd.members()[0].process().pid().ok();
                let url = format!("etcd://{}", etcd.endpoints()[0]);
                Self { url, shared: None, pid, _kept: Box::new(etcd) }
            }
            "postgres" => {
                let options = PostgresOptions::new().line("max_connections = 700");
                let server = Postgres::start(options).await.unwrap();
                served(format!("postgres://postgres@{}/postgres", server.address()), server)
            }
            "mysql" => {
                let options = MariadbOptions::new()
                    .flag("--innodb-flush-log-at-trx-commit=1")
                    .flag("--max-connections=700");
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
        let server = self.pid.map(with_children).unwrap_or_default();
        [processor_time(std::process::id()), server]
    }
}

/// Of a process and those that it has started.
fn with_children(pid: u32) -> Duration {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let each = children.split_whitespace().filter_map(|child| child.parse().ok());
    // One that has ended meanwhile counts no more.
    let each = each.filter(|child| std::path::Path::new(&format!("/proc/{child}/task")).exists());
    processor_time(pid) + each.map(with_children).sum::<Duration>()
}
