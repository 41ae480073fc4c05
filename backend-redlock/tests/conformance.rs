//! The suite over five Redis servers and over three.

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{
    Harness, SetUpError, Store,
    kit::{Redis, RedisOptions, Server as _},
};
use lock_core::{Backend, Error, Init};

struct OnNodes {
    name: &'static str,
    nodes: usize,
    options: &'static str,
}

#[async_trait]
impl Harness for OnNodes {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let servers = Redis::start_many(self.nodes, RedisOptions::new()).await?;
        let hosts: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
        // Wide limits, so that nodes on a busy machine do not look as if they were down.
        let url = format!(
            "redlock://{}?timeout=10s&node_timeout=5s&clock_bound=200ms{}",
            hosts.join(","),
            self.options
        );
        let first_use = Init::new().with_first_use(true);
        backend_redlock::connect(&url).await?.init(&first_use).await?;
        Ok(Store::new(url, servers))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_redlock::connect(address).await
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(1200)
    }

    fn skips(&self) -> &'static [&'static str] {
        // The queues are only advice: no entry has a right to be served.
        &["fair"]
    }
}

fn main() -> ExitCode {
    let on =
        |name, nodes, options| -> Arc<dyn Harness> { Arc::new(OnNodes { name, nodes, options }) };
    conformance_tests::main(vec![on("redlock/5", 5, ""), on("redlock/3", 3, "")])
}
