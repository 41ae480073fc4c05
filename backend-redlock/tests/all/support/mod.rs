//! Helpers for tests on real servers.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)] // not every test uses all of it

use std::{future::Future, sync::Arc, time::Duration};

use lock_core::{Backend, LockName};
use servers::{Proxy, Redis, RedisOptions, Server as _};

#[path = "../../../../backend-redis/tests/all/support/direct.rs"]
pub(crate) mod direct;
#[path = "../../../../backend-redis/tests/all/support/permissions.rs"]
pub(crate) mod permissions;
#[path = "../../../../backend-redis/tests/all/support/requests.rs"]
mod requests;
#[path = "../../../../backend-redis/tests/all/support/shared_cases.rs"]
pub(crate) mod shared_cases;

pub(crate) use self::requests::*;

pub(crate) const LEASE: Duration = Duration::from_secs(20);
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Wide limits, so that nodes on a busy machine do not look as if they were down or had wrong
/// clocks.
pub(crate) const PATIENT: &str = "timeout=10s&node_timeout=4s&clock_bound=2s";
/// The same, for calls to which a majority does not answer.
pub(crate) const UNANSWERED: &str = "timeout=5s&node_timeout=2s&clock_bound=2s";
/// For leases that end in a test. A reply that takes longer than the bound does not count.
pub(crate) const SHORT: &str = "timeout=5s&node_timeout=2s&clock_bound=400ms";

/// Servers, each also reachable through a proxy.
pub(crate) struct Nodes {
    pub(crate) servers: Vec<Redis>,
    pub(crate) proxies: Vec<Proxy>,
}

impl Nodes {
    /// Nodes whose stores grant at once.
    pub(crate) async fn start(count: usize) -> Self {
        let nodes = Self::bare(vec![RedisOptions::new(); count]).await;
        first_use(&*nodes.direct().await).await;
        nodes
    }

    pub(crate) async fn bare(options: Vec<RedisOptions>) -> Self {
        let (mut servers, mut proxies) = (Vec::new(), Vec::new());
        for options in options {
            let server = Redis::start(options).await.unwrap();
            proxies.push(Proxy::start(server.address()).await.unwrap());
            servers.push(server);
        }
        Self { servers, proxies }
    }

    pub(crate) fn url(&self, options: &str) -> String {
        let hosts: Vec<_> = self.servers.iter().map(|each| each.address().to_string()).collect();
        format!("redlock://{}?{options}", hosts.join(","))
    }

    pub(crate) fn proxied_url(&self, options: &str) -> String {
        let hosts: Vec<_> = self.proxies.iter().map(|each| each.address().to_string()).collect();
        format!("redlock://{}?{options}", hosts.join(","))
    }

    pub(crate) async fn direct(&self) -> Arc<dyn Backend> {
        connect(&self.url(PATIENT)).await
    }

    /// A client with a proxy before each node.
    pub(crate) async fn proxied(&self, options: &str) -> Arc<dyn Backend> {
        connect(&self.proxied_url(options)).await
    }

    /// How many nodes keep a record of the lock.
    pub(crate) async fn keeping(&self, name: &LockName) -> usize {
        let mut keeping = 0;
        for server in &self.servers {
            let key = format!("leasehold-redlock:{{0}}:lock:{name}");
            if let Ok(answer) = server.cli(&["EXISTS", &key]).await {
                keeping += usize::from(answer == "1");
            }
        }
        keeping
    }
}

pub(crate) async fn connect(url: &str) -> Arc<dyn Backend> {
    backend_redlock::connect(url).await.unwrap()
}

/// Calls `ask` until it returns something.
pub(crate) async fn eventually<T, Fut>(what: &str, ask: impl Fn() -> Fut) -> T
where
    Fut: Future<Output = Option<T>>,
{
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, asking)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within {SOON:?}"))
}
