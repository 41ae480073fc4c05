//! The suite over five Redis servers and over three. Every case runs with the permissions that the
//! documentation names.

#[path = "../../backend-redis/tests/all/support/permissions.rs"]
mod permissions;

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error, Init};
use servers::{Redis, RedisOptions, Server as _};

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
        let redis = include_str!("../../backend-redis/src/lib.rs");
        let acl = permissions::documented_acl(redis, "# Permissions", "leasehold-redlock");
        let own = include_str!("../src/lib.rs").split('`').find(|part| part.starts_with("+zadd"));
        let own = own.ok_or("no permissions of its own")?;
        let options = RedisOptions::new().line(format!("{acl} {own}"));
        let servers = Redis::start_many(self.nodes, options).await?;
        let login = |server: &Redis| format!("app:hunter2@{}", server.address());
        let hosts: Vec<_> = servers.iter().map(login).collect();
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
        &["fair", "records", "hands_over"]
    }
}

fn main() -> ExitCode {
    let on =
        |name, nodes, options| -> Arc<dyn Harness> { Arc::new(OnNodes { name, nodes, options }) };
    conformance_tests::main(vec![on("redlock/5", 5, ""), on("redlock/3", 3, "")])
}
