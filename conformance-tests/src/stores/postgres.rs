//! PostgreSQL, and one with a replica behind an address that moves.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use lock_core::LockName;
use rustix::process::Signal;
use sqlx::PgPool;

use super::{census, fences, made, plants, staged};
use crate::{
    SetUpError,
    kit::{Clock, ColdCopy, Postgres, PostgresOptions, Proxy, Server as _},
    proof::{Fault, Plant, Stage},
};

pub(super) async fn start(fault: Fault) -> Result<Stage, SetUpError> {
    let clock = plants::clock_for(fault).await?;
    let mut options = PostgresOptions::new();
    if let Some(clock) = &clock {
        options = options.clock(clock);
    }
    if matches!(fault, Fault::SlowDisk | Fault::FullDisk) {
        options = options.line("fsync = on");
    }
    let mut server = Postgres::start(options).await?;
    let longest = plants::longest_lease(fault);
    let url = |at: SocketAddr| format!("postgres://postgres@{at}/postgres?longest_lease={longest}");
    let address = server.address();
    made(&url(address)).await?;
    let copy = match fault {
        Fault::Restored => {
            let copy = ColdCopy::take(&mut server, Signal::INT).await?;
            server.sql("CREATE TABLE not_in_the_copy (x INT)").await?;
            Some(copy)
        }
        _ => None,
    };
    if fault == Fault::FailedOver {
        return failing_over(server, url).await;
    }
    let pool = PgPool::connect(&format!("postgres://postgres@{address}/postgres")).await?;
    let plant = OnePostgres { server, clock, copy, disk: plants::Disk::default() };
    let stage = staged(address, plant, url).await?;
    Ok(Stage {
        fence: Some(Arc::new(fences::Postgres::on(pool.clone()).await?)),
        census: Some(Arc::new(census::Postgres(pool))),
        ..stage
    })
}

async fn failing_over(
    primary: Postgres,
    url: impl Fn(SocketAddr) -> String,
) -> Result<Stage, SetUpError> {
    let replica = primary.replica().await?;
    let service = Proxy::start(primary.address()).await?;
    let url = url(service.address());
    let plant = Pair { primary, replica, service };
    Ok(Stage { plant: Some(Box::new(plant)), ..Stage::of_clients(url, ()) })
}

struct OnePostgres {
    server: Postgres,
    clock: Option<Clock>,
    copy: Option<ColdCopy>,
    disk: plants::Disk,
}

#[async_trait]
impl Plant for OnePostgres {
    async fn plant(&mut self, fault: Fault, name: &LockName) -> Result<String, SetUpError> {
        match fault {
            Fault::Restored => {
                let copy = self.copy.as_ref().ok_or("no copy was taken")?;
                copy.put_back(&mut self.server, Signal::INT).await?;
                plants::put_back(&self.server.sql(plants::LATER).await?)
            }
            Fault::SlowDisk => self.disk.slow(self.server.process()).await,
            Fault::FullDisk => {
                let log = self.server.process().folder().join("data/pg_wal");
                let files = std::fs::read_dir(log)?.flatten().map(|entry| entry.path());
                let files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
                self.disk.full(self.server.process(), &files).await
            }
            Fault::ClockForward | Fault::ClockBack => {
                let reads = || async {
                    let now = "SELECT extract(epoch FROM clock_timestamp())";
                    Ok(self.server.sql(now).await?.parse()?)
                };
                plants::step(self.clock.as_ref(), fault, reads).await
            }
            _ => self.server.plant(fault, name).await,
        }
    }

    async fn heal(&mut self, fault: Fault) -> Result<String, SetUpError> {
        match fault {
            Fault::SlowDisk | Fault::FullDisk => self.disk.heal(&mut self.server).await,
            Fault::ClockForward | Fault::ClockBack => {
                Ok(plants::revived(&mut self.server).await?.to_owned())
            }
            _ => self.server.heal(fault).await,
        }
    }
}

struct Pair {
    primary: Postgres,
    replica: Postgres,
    service: Proxy,
}

#[async_trait]
impl Plant for Pair {
    async fn plant(&mut self, _: Fault, _: &LockName) -> Result<String, SetUpError> {
        self.primary.kill()?;
        self.replica.promote().await?;
        self.service.redirect(self.replica.address());
        let recovers = self.replica.sql("SELECT pg_is_in_recovery()").await?;
        match recovers.as_str() {
            "f" => Ok("the primary is dead, and its replica takes writes".to_owned()),
            other => Err(format!("the replica still follows: {other}").into()),
        }
    }

    async fn heal(&mut self, _: Fault) -> Result<String, SetUpError> {
        Err("a failover does not end".into())
    }
}
