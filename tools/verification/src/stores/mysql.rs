//! MariaDB and its faults.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use rustix::process::Signal;
use sqlx::MySqlPool;

use super::{
    behind_proxy,
    faults::{self, Database, OneDatabase},
    fences, made, record_counters,
};
use crate::proof::{Fault, StartedStore};
use conformance_tests::SetUpError;
use servers::{Mariadb, MariadbOptions, Server as _};

pub(super) async fn start(fault: Fault, flush: u8) -> Result<StartedStore, SetUpError> {
    let clock = faults::clock_for(fault).await?;
    let mut options = MariadbOptions::new();
    if let Some(clock) = &clock {
        options = options.clock(clock);
    }
    let server = Mariadb::start(options).await?;
    let longest_lease = match flush {
        1 => faults::longest_lease(fault),
        // The victim must believe its lock until the server has started again.
        _ => "20s",
    };
    let settings = format!("ssl-mode=disabled&longest_lease={longest_lease}");
    let url = |at: SocketAddr| format!("mysql://root@{at}/test?{settings}");
    let address = server.address();
    made(&url(address)).await?;
    let injector = OneDatabase::new(server, clock, fault).await?;
    let pool =
        MySqlPool::connect(&format!("mysql://root@{address}/test?ssl-mode=disabled")).await?;
    let fence = fences::Mysql::on(pool.clone()).await?;
    // Only now: the tables must be on the disk. Where a commit flushes nothing, the second after
    // which the server flushes does not end during the run, so that a restart surely loses grants.
    let flush = format!("innodb_flush_log_at_trx_commit = {flush}");
    for setting in ["innodb_flush_log_at_timeout = 2700", &flush] {
        let set = format!("SET GLOBAL {setting}");
        sqlx::query(sqlx::AssertSqlSafe(set)).execute(&pool).await?;
    }
    let started = behind_proxy(address, injector, url).await?;
    Ok(StartedStore {
        fence: Some(Arc::new(fence)),
        counter: Some(Arc::new(record_counters::Mysql(pool))),
        ..started
    })
}

#[async_trait]
impl Database for Mariadb {
    const STOP: Signal = Signal::TERM;
    const END: Signal = Signal::KILL;
    const CLOCK: &'static str = "SELECT UNIX_TIMESTAMP(NOW(6))";

    fn log_files(&self) -> io::Result<Vec<PathBuf>> {
        Ok(vec![self.process().folder().join("data/ib_logfile0")])
    }

    async fn query(&self, sql: &str) -> Result<String, SetUpError> {
        Ok(self.sql(sql).await?)
    }
}
