//! Starts the servers that are installed on this machine, for a comparison.

use std::{any::Any, net::SocketAddr};

use leasehold::StoreUrl;
use lock_core::{BoxFuture, Error, Init};
use serde::Serialize;
use servers::{
    Etcd, EtcdOptions, KitError, Mariadb, MariadbOptions, Postgres, PostgresOptions, Redis,
    RedisOptions, Server as _, ZooKeeper, ZooKeeperOptions,
};

use crate::store::Store;

/// The number of Redis nodes of the Redlock.
const NODES: usize = 5;

/// A store that could not be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Absent {
    /// The name of the store.
    pub name: String,
    /// Why, and what would help.
    pub why: String,
}

/// Servers in temporary folders, on free ports of 127.0.0.1. They end when this is dropped, and
/// when this process ends for any reason.
pub struct Local {
    /// The stores that were started.
    pub stores: Vec<Store>,
    /// The stores that could not be started.
    pub absent: Vec<Absent>,
    servers: Vec<Box<dyn Any + Send>>,
}

/// A server that runs, and its URL.
type Started = Result<(String, Box<dyn Any + Send>), KitError>;

type Start = fn() -> BoxFuture<Started>;

/// Each kind, by the name of its scheme, which is also the name of its cargo feature.
const KINDS: [(&str, Start); 6] = [
    ("redis", || Box::pin(redis())),
    ("redlock", || Box::pin(redlock())),
    ("etcd", || Box::pin(etcd())),
    ("zookeeper", || Box::pin(zookeeper())),
    ("postgres", || Box::pin(postgres())),
    ("mysql", || Box::pin(mysql())),
];

impl Local {
    /// Starts one store of each kind whose programs are installed and whose backend is in this
    /// build: Redis, Redlock with five Redis, etcd, ZooKeeper, PostgreSQL and MariaDB, with
    /// settings under which their locks are safe.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the started servers end.
    pub async fn start() -> Self {
        let started = KINDS.map(|(name, start)| async move { (name, one(name, start).await) });
        let mut local = Self { stores: Vec::new(), absent: Vec::new(), servers: Vec::new() };
        for (name, started) in futures_util::future::join_all(started).await {
            match started {
                Ok((store, server)) => {
                    local.stores.push(store);
                    local.servers.push(server);
                }
                Err(why) => local.absent.push(Absent { name: name.to_owned(), why }),
            }
        }
        local
    }
}

async fn one(name: &str, start: Start) -> Result<(Store, Box<dyn Any + Send>), String> {
    // Checked first: a server whose backend is not in this build is of no use.
    StoreUrl::new(format!("{name}:")).map_err(|error| error.to_string())?;
    let (url, server) = start().await.map_err(|error| match error {
        KitError::MissingProgram { program, package } => {
            format!("`{program}` is not installed (Debian's package {package} brings it)")
        }
        other => {
            let cause = std::error::Error::source(&other).map(|cause| format!(": {cause}"));
            format!("{other}{}", cause.unwrap_or_default())
        }
    })?;
    let made = async {
        let url = StoreUrl::new(url)?;
        let store = leasehold::open(url.clone()).await?;
        store.init(&Init::new().with_first_use(true)).await?;
        store.close().await;
        Ok::<_, Error>(Store::new(url))
    };
    let store = made.await.map_err(|error| format!("the store does not get ready: {error}"))?;
    Ok((store, server))
}

async fn redis() -> Started {
    let server = Redis::start(RedisOptions::new()).await?;
    Ok((format!("redis://{}", server.address()), Box::new(server)))
}

async fn redlock() -> Started {
    let nodes = Redis::start_many(NODES, RedisOptions::new()).await?;
    let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    Ok((format!("redlock://{}", hosts.join(",")), Box::new(nodes)))
}

async fn etcd() -> Started {
    // etcd's default timers; those of the kit are for tests.
    let timers = ["--heartbeat-interval=100", "--election-timeout=1000"];
    let options = timers.into_iter().fold(EtcdOptions::new(), EtcdOptions::flag);
    let server = Etcd::single(options).await?;
    let hosts: Vec<_> = server.endpoints().iter().map(SocketAddr::to_string).collect();
    Ok((format!("etcd://{}", hosts.join(",")), Box::new(server)))
}

async fn zookeeper() -> Started {
    let server = ZooKeeper::single(ZooKeeperOptions::new()).await?;
    // Twice the kit's tick, so that no session ends on a busy machine. The shortest lease is 2 s.
    Ok((format!("zookeeper://{}?tick=400ms", server.endpoints()[0]), Box::new(server)))
}

async fn postgres() -> Started {
    let options = PostgresOptions::new().line("fsync = on").line("shared_buffers = 128MB");
    // Many tasks have a connection of their own.
    let options = options.line("max_connections = 300");
    let server = Postgres::start(options).await?;
    Ok((format!("postgres://postgres@{}/postgres", server.address()), Box::new(server)))
}

async fn mysql() -> Started {
    // MariaDB's default sizes. With the kit's small sizes it reads and writes pages all the time.
    let sizes = ["--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M"];
    let options = sizes.into_iter().fold(MariadbOptions::new(), MariadbOptions::flag);
    let server = Mariadb::start(options).await?;
    Ok((format!("mysql://root@{}/test?ssl-mode=disabled", server.address()), Box::new(server)))
}
