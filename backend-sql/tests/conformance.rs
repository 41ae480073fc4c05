//! The suite over each database with both strategies, each on its own server or in its own file.
//! PostgreSQL is also tested through a pooler that gives each transaction another session and
//! tracks no prepared statements; the clients' options do not say so.

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use backend_sql::{mysql, postgres, sqlite};
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error, Init};
use servers::{Mariadb, MariadbOptions, Pgbouncer, Postgres, PostgresOptions, Server as _};

/// Cases that do not apply if waiters poll.
const NO_PUSH: &[&str] = &["pushes"];

#[derive(Clone, Copy)]
enum Database {
    Sqlite,
    Mysql,
    Postgres,
    Pooled,
}

struct OnSql {
    name: &'static str,
    database: Database,
    strategy: &'static str,
}

impl OnSql {
    /// A database without tables.
    async fn empty(&self) -> Result<Store, SetUpError> {
        let strategy = self.strategy;
        Ok(match self.database {
            Database::Sqlite => {
                let folder = tempfile::tempdir()?;
                let path = folder.path().join("locks.db");
                Store::new(format!("sqlite:{}?strategy={strategy}", path.display()), folder)
            }
            Database::Mysql => {
                let server = Mariadb::start(MariadbOptions::new()).await?;
                let address = server.address();
                let url = format!("mysql://root@{address}/test?ssl-mode=disabled");
                Store::new(format!("{url}&strategy={strategy}"), server)
            }
            Database::Postgres => {
                let server = Postgres::start(flushing()).await?;
                let address = server.address();
                let url = format!("postgres://postgres@{address}/postgres?strategy={strategy}");
                Store::new(url, server)
            }
            Database::Pooled => {
                let server = Postgres::start(flushing()).await?;
                let pooler = Pgbouncer::start(&server, 3).await?;
                let address = pooler.address();
                let url = format!("postgres://postgres@{address}/postgres?strategy={strategy}");
                // The pooler goes first.
                Store::new(url, (pooler, server))
            }
        })
    }
}

#[async_trait]
impl Harness for OnSql {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let store = self.empty().await?;
        let backend = self.connect(&store.address).await?;
        backend.init(&Init::default()).await?;
        let promised = backend.guarantees();
        let (push, fair) = match self.database {
            Database::Sqlite | Database::Postgres | Database::Mysql => (true, true),
            Database::Pooled => (false, true),
        };
        if (promised.push, promised.fair) != (push, fair) {
            return Err(format!("not what was to be promised: {promised:?}").into());
        }
        Ok(store)
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        match self.database {
            Database::Sqlite => sqlite::connect(address).await,
            Database::Mysql => mysql::connect(address).await,
            Database::Postgres | Database::Pooled => postgres::connect(address).await,
        }
    }

    fn skips(&self) -> &'static [&'static str] {
        match self.database {
            Database::Sqlite | Database::Postgres | Database::Mysql => &[],
            // No messages arrive through a pooler.
            Database::Pooled => NO_PUSH,
        }
    }
}

/// Without this no record is promised. The tables of locks are unlogged, so few statements wait.
fn flushing() -> PostgresOptions {
    PostgresOptions::new().line("fsync = on")
}

fn main() -> ExitCode {
    let harness = |(name, database, strategy)| -> Arc<dyn Harness> {
        Arc::new(OnSql { name, database, strategy })
    };
    let all = [
        ("sqlite/primary-key", Database::Sqlite, "primary-key"),
        ("sqlite/optimistic", Database::Sqlite, "optimistic"),
        ("mysql/primary-key", Database::Mysql, "primary-key"),
        ("mysql/optimistic", Database::Mysql, "optimistic"),
        ("postgres/primary-key", Database::Postgres, "primary-key"),
        ("postgres/optimistic", Database::Postgres, "optimistic"),
        ("postgres/pooled", Database::Pooled, "primary-key"),
    ];
    conformance_tests::main(all.map(harness).to_vec())
}
