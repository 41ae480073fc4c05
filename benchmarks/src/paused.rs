//! A Redlock of which two nodes of five are paused.

use std::time::Duration;

use conformance_tests::kit::{Redis, RedisOptions, Server as _};
use lock_core::{Init, LockClient};

use crate::{LEASE, Seen, WAIT, call, one_by_one};

/// Five nodes of its own, and a client of them.
pub struct Paused {
    nodes: Vec<Redis>,
    client: LockClient,
}

impl Paused {
    /// Starts them.
    pub async fn start() -> Self {
        let nodes = Redis::start_many(5, RedisOptions::new()).await.unwrap();
        let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
        let url = format!("redlock://{}", hosts.join(","));
        let store = backend_redlock::connect(&url).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        Self { nodes, client: LockClient::new(store) }
    }

    /// Acquire and release with all nodes, and then with three, after the first attempt.
    pub async fn round(&self, span: Duration) -> [Seen; 2] {
        let client = self.client.clone();
        let pair = call(move |_| {
            let client = client.clone();
            async move {
                let lock = client.lock("paused").lease(LEASE).wait(WAIT);
                lock.acquire().await.unwrap().release().await.unwrap();
            }
        });
        // The first one finds all nodes again.
        pair(0).await;
        let healthy = one_by_one(&pair, span).await;
        for node in &self.nodes[..2] {
            node.pause().unwrap();
        }
        pair(0).await;
        // What the first attempt left on its way to the paused has ended by then.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let degraded = one_by_one(&pair, span).await;
        for node in &self.nodes[..2] {
            node.resume().unwrap();
        }
        for node in &self.nodes[..2] {
            node.cli(&["PING"]).await.unwrap();
        }
        [healthy, degraded]
    }
}
