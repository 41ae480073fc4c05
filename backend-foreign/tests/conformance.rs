//! The conformance suite on the layouts of other libraries, on real servers. In Redis every case
//! runs with the permissions that the documentation names.

#[path = "../../backend-redis/tests/all/support/permissions.rs"]
mod permissions;

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error, Init};
use servers::{
    Mariadb, MariadbOptions, Postgres, PostgresOptions, Redis, RedisOptions, Server as _,
};

struct OnLayout {
    name: &'static str,
    layout: &'static str,
    skips: &'static [&'static str],
}

#[async_trait]
impl Harness for OnLayout {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let page = include_str!("../../docs/backends/foreign.md");
        let acl = permissions::documented_acl(page, "## Permissions", "");
        let server = Redis::start(RedisOptions::new().line(acl)).await?;
        let url = format!("redis://app:hunter2@{}?layout={}", server.address(), self.layout);
        let first_use = Init::new().with_first_use(true);
        backend_foreign::connect(&url).await?.init(&first_use).await?;
        Ok(Store::new(url, server))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_foreign::connect(address).await
    }

    /// With their braces, the keys of one lock would be in two slots of a cluster.
    fn refuses(&self, name: &str) -> bool {
        matches!(name, "{}" | "a}{b")
    }

    fn skips(&self) -> &'static [&'static str] {
        self.skips
    }
}

/// ShedLock's table.
#[derive(Clone, Copy)]
enum OnTable {
    Postgres,
    Mysql,
}

#[async_trait]
impl Harness for OnTable {
    fn name(&self) -> &'static str {
        match self {
            Self::Postgres => "shedlock/postgres",
            Self::Mysql => "shedlock/mysql",
        }
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let store = match self {
            Self::Postgres => {
                let flushing = PostgresOptions::new().line("fsync = on");
                let server = Postgres::start(flushing).await?;
                let url = format!("postgres://postgres@{}/postgres", server.address());
                Store::new(format!("{url}?layout=shedlock"), server)
            }
            Self::Mysql => {
                let server = Mariadb::start(MariadbOptions::new()).await?;
                let url = format!("mysql://root@{}/test", server.address());
                Store::new(format!("{url}?ssl-mode=disabled&layout=shedlock"), server)
            }
        };
        let backend = backend_foreign::connect(&store.address).await?;
        backend.init(&Init::default()).await?;
        let promised = backend.guarantees();
        if promised.push || promised.fair || promised.shared.holds() {
            return Err(format!("it must not promise this: {promised:?}").into());
        }
        Ok(store)
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_foreign::connect(address).await
    }

    /// In MySQL, ShedLock's table ignores trailing spaces when it compares names.
    fn refuses(&self, name: &str) -> bool {
        matches!(self, Self::Mysql) && name.ends_with(' ')
    }

    fn skips(&self) -> &'static [&'static str] {
        POLLED
    }
}

/// No layout has a queue or readers, and nothing wakes a waiter.
const POLLED: &[&str] = &["fair", "shared", "records", "hands_over", "pushes"];
/// For layouts whose messages also wake leasehold's waiters.
const WOKEN: &[&str] = &["fair", "shared", "records", "hands_over"];

fn main() -> ExitCode {
    let on =
        |name, layout, skips| -> Arc<dyn Harness> { Arc::new(OnLayout { name, layout, skips }) };
    conformance_tests::main(vec![
        Arc::new(OnTable::Postgres),
        Arc::new(OnTable::Mysql),
        on("redisson", "redisson", WOKEN),
        on("redis-py", "redis-py", POLLED),
        on("redsync", "redsync", POLLED),
        on("node-redlock", "node-redlock", POLLED),
        on("python-redis-lock", "python-redis-lock", POLLED),
        on("spring", "spring&registry=app", WOKEN),
        on("shedlock", "shedlock", POLLED),
        on("string", "string&key=locks:{name}", POLLED),
    ])
}
