//! MariaDB.

use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use lock_core::LockName;
use rustix::process::Signal;
use sqlx::MySqlPool;

use super::{census, fences, made, plants, staged};
use crate::{
    SetUpError,
    kit::{Clock, ColdCopy, Mariadb, MariadbOptions, Server as _},
    proof::{Fault, Plant, Stage},
};

pub(super) async fn start(fault: Fault, flush: u8) -> Result<Stage, SetUpError> {
    let clock = plants::clock_for(fault).await?;
    let mut options = MariadbOptions::new();
    if let Some(clock) = &clock {
        options = options.clock(clock);
    }
    let mut server = Mariadb::start(options).await?;
    let settings = format!("ssl-mode=disabled&longest_lease={}", plants::longest_lease(fault));
    let url = |at: SocketAddr| format!("mysql://root@{at}/test?{settings}");
    let address = server.address();
    made(&url(address)).await?;
    let copy = match fault {
        Fault::Restored => {
            let copy = ColdCopy::take(&mut server, Signal::TERM).await?;
            server.sql("CREATE TABLE not_in_the_copy (x INT)").await?;
            Some(copy)
        }
        _ => None,
    };
    let pool =
        MySqlPool::connect(&format!("mysql://root@{address}/test?ssl-mode=disabled")).await?;
    let fence = fences::Mysql::on(pool.clone()).await?;
    // After the tables were made, which stay.
    server.sql(&format!("SET GLOBAL innodb_flush_log_at_trx_commit = {flush}")).await?;
    let plant = OneMariadb { server, clock, copy, disk: plants::Disk::default() };
    let stage = staged(address, plant, url).await?;
    Ok(Stage { fence: Some(Arc::new(fence)), census: Some(Arc::new(census::Mysql(pool))), ..stage })
}

struct OneMariadb {
    server: Mariadb,
    clock: Option<Clock>,
    copy: Option<ColdCopy>,
    disk: plants::Disk,
}

impl OneMariadb {
    async fn number<T: std::str::FromStr>(&self, sql: &str) -> Result<T, SetUpError> {
        let answer = self.server.sql(sql).await?;
        answer.parse().map_err(|_| format!("{sql} answered {answer:?}").into())
    }
}

#[async_trait]
impl Plant for OneMariadb {
    async fn plant(&mut self, fault: Fault, name: &LockName) -> Result<String, SetUpError> {
        match fault {
            Fault::Restored => {
                let copy = self.copy.as_ref().ok_or("no copy was taken")?;
                copy.put_back(&mut self.server, Signal::KILL).await?;
                plants::put_back(&self.server.sql(plants::LATER).await?)
            }
            Fault::SlowDisk => self.disk.slow(self.server.process()).await,
            Fault::FullDisk => {
                let log = self.server.process().folder().join("data/ib_logfile0");
                self.disk.full(self.server.process(), &[log]).await
            }
            Fault::ClockForward | Fault::ClockBack => {
                let reads = || self.number("SELECT UNIX_TIMESTAMP(NOW(6))");
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
