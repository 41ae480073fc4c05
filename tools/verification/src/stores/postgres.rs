//! PostgreSQL and its faults, and a failover to a replica.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use lock_core::LockName;
use rustix::process::Signal;
use sqlx::PgPool;

use super::{
    behind_proxy,
    faults::{self, Database, OneDatabase},
    fences, made, record_counters,
};
use crate::proof::{Fault, FaultInjector, StartedStore};
use conformance_tests::SetUpError;
use servers::{Postgres, PostgresOptions, Proxy, Server as _};

pub(super) async fn start(fault: Fault) -> Result<StartedStore, SetUpError> {
    let clock = faults::clock_for(fault).await?;
    let mut options = PostgresOptions::new();
    if let Some(clock) = &clock {
        options = options.clock(clock);
    }
    if matches!(fault, Fault::SlowDisk | Fault::FullDisk) {
        options = options.line("fsync = on");
    }
    let server = Postgres::start(options).await?;
    let longest = faults::longest_lease(fault);
    let url = |at: SocketAddr| format!("postgres://postgres@{at}/postgres?longest_lease={longest}");
    let address = server.address();
    made(&url(address)).await?;
    if fault == Fault::FailedOver {
        return failing_over(server, url).await;
    }
    let injector = OneDatabase::new(server, clock, fault).await?;
    let pool = PgPool::connect(&format!("postgres://postgres@{address}/postgres")).await?;
    let started = behind_proxy(address, injector, url).await?;
    Ok(StartedStore {
        fence: Some(Arc::new(fences::Postgres::on(pool.clone()).await?)),
        counter: Some(Arc::new(record_counters::Postgres(pool))),
        ..started
    })
}

async fn failing_over(
    primary: Postgres,
    url: impl Fn(SocketAddr) -> String,
) -> Result<StartedStore, SetUpError> {
    let replica = primary.replica().await?;
    let service = Proxy::start(primary.address()).await?;
    let url = url(service.address());
    let injector = Pair { primary, replica, service };
    Ok(StartedStore { injector: Some(Box::new(injector)), ..StartedStore::of_clients(url, ()) })
}

#[async_trait]
impl Database for Postgres {
    const STOP: Signal = Signal::INT;
    const END: Signal = Signal::INT;
    const CLOCK: &'static str = "SELECT extract(epoch FROM clock_timestamp())";

    fn log_files(&self) -> io::Result<Vec<PathBuf>> {
        let log = std::fs::read_dir(self.process().folder().join("data/pg_wal"))?;
        Ok(log.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect())
    }

    async fn query(&self, sql: &str) -> Result<String, SetUpError> {
        Ok(self.sql(sql).await?)
    }
}

/// A primary and its replica, behind an address that moves.
struct Pair {
    primary: Postgres,
    replica: Postgres,
    service: Proxy,
}

#[async_trait]
impl FaultInjector for Pair {
    async fn inject(&mut self, _: Fault, _: &LockName) -> Result<String, SetUpError> {
        self.primary.kill()?;
        self.replica.promote().await?;
        self.service.redirect(self.replica.address());
        let recovers = self.replica.sql("SELECT pg_is_in_recovery()").await?;
        match recovers.as_str() {
            "f" => Ok("the primary is dead, and its replica takes writes".to_owned()),
            other => Err(format!("the replica still follows: {other}").into()),
        }
    }

    async fn end_fault(&mut self, _: Fault) -> Result<String, SetUpError> {
        Err("a failover does not end".into())
    }
}
