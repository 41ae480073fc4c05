//! Nodes whose records have another version.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Backend, Error};
use verification::versions::Versioned;

use crate::support::{LEASE, Nodes, PATIENT, granted, request};

const EPOCH: &str = "leasehold-redlock:{0}:epoch";

#[async_trait]
impl Versioned for Nodes {
    async fn connect(&self) -> Result<Arc<dyn Backend>, Error> {
        backend_redlock::connect(&self.proxied_url(PATIENT)).await
    }

    async fn plant(&self, version: u64) {
        for at in 0..self.servers.len() {
            plant(self, at, version).await;
        }
    }

    async fn contents(&self) -> String {
        let mut all = Vec::new();
        for server in &self.servers {
            for key in server.cli(&["KEYS", "*"]).await.unwrap().lines() {
                all.push(format!("{key}: {}", server.cli(&["DUMP", key]).await.unwrap()));
            }
        }
        all.sort();
        all.join("\n")
    }
}

async fn plant(nodes: &Nodes, at: usize, version: u64) {
    nodes.servers[at].cli(&["HSET", EPOCH, "version", &version.to_string()]).await.unwrap();
}

/// A node that has another version has no vote, like one that is down.
#[tokio::test]
async fn a_minority_of_another_version_has_no_vote() {
    let nodes = Nodes::start(3).await;
    let store = nodes.connect().await.unwrap();
    plant(&nodes, 0, 2).await;
    let name = request("a", LEASE).name;
    granted(&*store, &request("a", LEASE)).await;
    assert_eq!(nodes.keeping(&name).await, 2);
    plant(&nodes, 1, 2).await;
    let error = store.try_acquire(&request("b", LEASE)).await.unwrap_err();
    let line = format!("{error:#}");
    assert!(line.contains("1 of 3 nodes could vote") && line.contains("version 2"), "{line}");
}
