//! The suite over PostgreSQL, by both strategies, each on a server of its own.

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use conformance_tests::{
    Harness, SetUpError, Store,
    kit::{Postgres, PostgresOptions, Server as _},
};
use lock_core::{Backend, Error, Init};

struct OnPostgres {
    name: &'static str,
    strategy: &'static str,
}

#[async_trait]
impl Harness for OnPostgres {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let server = Postgres::start(PostgresOptions::new()).await?;
        let (address, strategy) = (server.address(), self.strategy);
        let url = format!("postgres://postgres@{address}/postgres?strategy={strategy}");
        backend_sql::postgres::connect(&url).await?.init(&Init::default()).await?;
        Ok(Store::new(url, server))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_sql::postgres::connect(address).await
    }
}

fn main() -> ExitCode {
    conformance_tests::main(vec![
        Arc::new(OnPostgres { name: "postgres/primary-key", strategy: "primary-key" }),
        Arc::new(OnPostgres { name: "postgres/optimistic", strategy: "optimistic" }),
    ])
}
