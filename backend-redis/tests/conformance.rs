//! The suite over one Redis, plain and with TLS; over one that sentinels watch, and over a cluster.
//! Every case runs with the permissions that the documentation names.

#[path = "all/support/permissions.rs"]
mod permissions;

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error, Init};
use servers::{ClientCertificates, Redis, RedisCluster, RedisOptions, Sentinels, Server as _};

const DOCUMENTATION: &str = include_str!("../src/lib.rs");

/// A server that knows the documented user. The default user is for the servers themselves and for
/// tests.
fn with_user(heading: &str, more: &str) -> RedisOptions {
    let acl = permissions::documented_acl(DOCUMENTATION, heading, "leasehold");
    RedisOptions::new().line(format!("{acl} {more}"))
}

struct OnRedis {
    name: &'static str,
    tls: bool,
}

#[async_trait]
impl Harness for OnRedis {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        // Without this no record is promised.
        let mut options = with_user("# Permissions", "").aof().line("appendfsync always");
        if self.tls {
            options = options.tls(ClientCertificates::Required);
        }
        let server = Redis::start(options).await?;
        let url = match (server.tls_address(), server.certificates()) {
            (Some(address), Some(files)) => format!(
                "rediss://app:hunter2@{address}?ca={}&cert={}&key={}",
                files.ca.display(),
                files.client_cert.display(),
                files.client_key.display()
            ),
            _ => format!("redis://app:hunter2@{}", server.address()),
        };
        let first_use = Init::new().with_first_use(true);
        backend_redis::connect(&url).await?.init(&first_use).await?;
        Ok(Store::new(url, server))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_redis::connect(address).await
    }
}

/// More than enough for a busy machine.
const WAIT: &str = "?wait_replicas=1&wait_timeout=4s";

/// Three sentinels, a master and two replicas.
struct OnSentinels {
    name: &'static str,
    options: &'static str,
}

#[async_trait]
impl Harness for OnSentinels {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        // What the documentation names for replicas, and for `wait_replicas`.
        let options = with_user("# Permissions", "+config|get +wait")
            .line("min-replicas-to-write 1")
            .line("min-replicas-max-lag 10");
        let group = Sentinels::start_patient(2, options, Duration::from_secs(60)).await?;
        let hosts: Vec<_> = group.endpoints().iter().map(ToString::to_string).collect();
        let (hosts, options) = (hosts.join(","), self.options);
        let url = format!("redis+sentinel://app:hunter2@{hosts}/{}{options}", Sentinels::MASTER);
        let first_use = Init::new().with_first_use(true);
        backend_redis::connect(&url).await?.init(&first_use).await?;
        Ok(Store::new(url, group))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_redis::connect(address).await
    }

    fn skips(&self) -> &'static [&'static str] {
        &["records"]
    }
}

/// Three masters with a replica each.
struct OnCluster;

#[async_trait]
impl Harness for OnCluster {
    fn name(&self) -> &'static str {
        "redis/cluster"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        // No failover because the machine is busy.
        let options = with_user("In a cluster:", "").line("cluster-node-timeout 60000");
        let cluster = RedisCluster::start(3, 1, options).await?;
        let hosts: Vec<_> = cluster.endpoints().iter().map(ToString::to_string).collect();
        let url = format!("redis+cluster://app:hunter2@{}", hosts.join(","));
        let first_use = Init::new().with_first_use(true);
        backend_redis::connect(&url).await?.init(&first_use).await?;
        Ok(Store::new(url, cluster))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_redis::connect(address).await
    }

    fn skips(&self) -> &'static [&'static str] {
        &["records"]
    }
}

fn main() -> ExitCode {
    let on = |name, tls| -> Arc<dyn Harness> { Arc::new(OnRedis { name, tls }) };
    conformance_tests::main(vec![
        on("redis", false),
        on("redis/tls", true),
        Arc::new(OnSentinels { name: "redis/sentinel", options: "" }),
        Arc::new(OnSentinels { name: "redis/sentinel/wait", options: WAIT }),
        Arc::new(OnCluster),
    ])
}
