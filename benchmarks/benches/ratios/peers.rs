//! Other libraries' locks.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use comparison::{Peer, Store};
use etcd_client::LockOptions;
use sqlx::{
    PgPool,
    postgres::{PgAdvisoryLock, PgPoolOptions},
};

type Trouble = Box<dyn std::error::Error + Send + Sync>;

const LEASE: Duration = Duration::from_secs(10);

/// Those of a store's server.
pub(crate) async fn of(store: &Store) -> Vec<Arc<dyn Peer>> {
    let url = store.url.expose();
    let (scheme, hosts) = url.split_once("://").unwrap_or((url, ""));
    match scheme {
        "redis" => {
            let pauses =
                [("rslock, defaults", None), ("rslock, 2 ms", Some(2)), ("rslock, 1 ms", Some(1))];
            let peer = |(label, pause)| rslock(store, label, pause, vec![url.to_owned()]);
            pauses.into_iter().map(peer).collect()
        }
        "redlock" => {
            let nodes = hosts.split(',').map(|host| format!("redis://{host}")).collect();
            vec![rslock(store, "rslock, defaults", None, nodes)]
        }
        "etcd" => {
            let client = etcd_client::Client::connect([hosts], None).await.unwrap();
            vec![Arc::new(LockApi { store: store.name.clone(), client })]
        }
        "postgres" => {
            let pool = PgPoolOptions::new().max_connections(32).test_before_acquire(false);
            let pool = pool.connect(url).await.unwrap();
            vec![Arc::new(Advisory { store: store.name.clone(), pool })]
        }
        _ => Vec::new(),
    }
}

fn rslock(
    store: &Store,
    label: &'static str,
    pause: Option<u64>,
    nodes: Vec<String>,
) -> Arc<dyn Peer> {
    let mut manager = rslock::LockManager::new(nodes);
    if let Some(pause) = pause {
        manager.set_retry(1, Duration::from_millis(pause));
    }
    Arc::new(Rslock { store: store.name.clone(), label, manager })
}

struct Rslock {
    store: String,
    label: &'static str,
    manager: rslock::LockManager,
}

#[async_trait]
impl Peer for Rslock {
    fn name(&self) -> String {
        self.label.to_owned()
    }

    fn store(&self) -> String {
        self.store.clone()
    }

    async fn hold(&self, _: usize, name: &str, held: &(dyn Fn() + Sync)) -> Result<bool, Trouble> {
        // It gives up after some attempts.
        let Ok(lock) = self.manager.lock(name, LEASE).await else { return Ok(false) };
        held();
        self.manager.unlock(&lock).await;
        Ok(true)
    }
}

/// The plain protocol: a lease, etcd's Lock call, a revoke.
struct LockApi {
    store: String,
    client: etcd_client::Client,
}

#[async_trait]
impl Peer for LockApi {
    fn name(&self) -> String {
        "etcd's Lock API".to_owned()
    }

    fn store(&self) -> String {
        self.store.clone()
    }

    async fn hold(&self, _: usize, name: &str, held: &(dyn Fn() + Sync)) -> Result<bool, Trouble> {
        let lease = self.client.lease_client().grant(10, None).await?.id();
        let options = LockOptions::new().with_lease(lease);
        self.client.lock_client().lock(format!("peer {name}"), Some(options)).await?;
        held();
        self.client.lease_client().revoke(lease).await?;
        Ok(true)
    }
}

/// It writes nothing, and ends with its session.
struct Advisory {
    store: String,
    pool: PgPool,
}

#[async_trait]
impl Peer for Advisory {
    fn name(&self) -> String {
        "sqlx PgAdvisoryLock".to_owned()
    }

    fn store(&self) -> String {
        self.store.clone()
    }

    async fn hold(&self, _: usize, name: &str, held: &(dyn Fn() + Sync)) -> Result<bool, Trouble> {
        let lock = PgAdvisoryLock::new(name);
        let guard = lock.acquire(self.pool.acquire().await?).await?;
        held();
        guard.release_now().await?;
        Ok(true)
    }
}
