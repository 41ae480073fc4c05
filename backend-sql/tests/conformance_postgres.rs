//! The suite over PostgreSQL, by both strategies, each on a server of its own; and once through a pooler
//! that gives each transaction another session and tracks no prepared statements, which nobody tells the clients.

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use conformance_tests::{
    Harness, SetUpError, Store,
    kit::{Pgbouncer, Postgres, PostgresOptions, Server as _},
};
use lock_core::{Backend, Error, Init};

struct OnPostgres {
    name: &'static str,
    options: &'static str,
    pooled: bool,
}

#[async_trait]
impl Harness for OnPostgres {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let server = Postgres::start(PostgresOptions::new()).await?;
        let pooler = match self.pooled {
            true => Some(Pgbouncer::start(&server, 3).await?),
            false => None,
        };
        let address = pooler.as_ref().map_or(server.address(), |pooler| pooler.address());
        let url = format!("postgres://postgres@{address}/postgres?{}", self.options);
        let store = backend_sql::postgres::connect(&url).await?;
        store.init(&Init::default()).await?;
        let promised = store.guarantees();
        if promised.push == self.pooled || !promised.fair {
            return Err(format!("not what was to be promised: {promised:?}").into());
        }
        // The pooler goes first.
        Ok(Store::new(url, (pooler, server)))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_sql::postgres::connect(address).await
    }

    fn skips(&self) -> &'static [&'static str] {
        // Nothing is told through a pooler.
        if self.pooled { &["a_release_does_not_wake_the_whole_herd"] } else { &[] }
    }
}

fn main() -> ExitCode {
    let harness = |name, options, pooled| -> Arc<dyn Harness> {
        Arc::new(OnPostgres { name, options, pooled })
    };
    conformance_tests::main(vec![
        harness("postgres/primary-key", "strategy=primary-key", false),
        harness("postgres/optimistic", "strategy=optimistic", false),
        harness("postgres/pooled", "", true),
    ])
}
