//! Three nodes whose scripts all lack the guard.

use std::sync::Arc;

use lock_core::{Backend, Error};
use servers::{Change, Proxy, RedisOptions, Server as _};
use verification::{
    missing_guards::{Clients, Setup, Verdict, cases::first_use},
    versions::refused,
};

use crate::support::{Nodes, PATIENT};

#[async_trait::async_trait]
impl Setup for Nodes {
    async fn start(changes: &[Change<'_>]) -> Self {
        let mut nodes = Self::bare(vec![RedisOptions::new(); 3]).await;
        for (proxy, server) in nodes.proxies.iter_mut().zip(&nodes.servers) {
            *proxy = Proxy::changing(server.address(), changes).await.unwrap();
        }
        nodes
    }

    fn altered(&self) -> u64 {
        self.proxies.iter().map(|proxy| proxy.counters().altered).sum()
    }
}

#[async_trait::async_trait]
impl Clients for Nodes {
    fn url(&self) -> String {
        self.proxied_url(PATIENT)
    }

    async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_redlock::connect(url).await
    }
}

pub(super) async fn another_version_is_refused(nodes: &Nodes) -> Verdict {
    drop(first_use(nodes).await);
    refused(nodes).await;
    Ok(())
}
