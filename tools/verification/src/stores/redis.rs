//! One Redis.

use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use lock_core::LockName;

use super::{behind_proxy, faults, fences, made, record_counters};
use crate::proof::{Fault, FaultInjector, StartedStore};
use conformance_tests::SetUpError;
use servers::{Clock, Redis, RedisOptions, Server as _};

pub(super) async fn start(fault: Fault, options: &'static str) -> Result<StartedStore, SetUpError> {
    let clock = faults::clock_for(fault).await?;
    let mut settings = options_for(fault, clock.as_ref());
    if fault == Fault::ServerRestarted && !options.is_empty() {
        // Flushed once a second, it may not even have written what it answered when it is killed:
        // while a flush is under way it writes up to two seconds late. The quarantine covers that.
        settings = settings.line("appendfsync always");
    }
    let server = Redis::start(settings).await?;
    let url = |at: SocketAddr| format!("redis://{at}?longest_lease=2s{options}");
    let address = server.address();
    made(&url(address)).await?;
    let kept = server.aof_written()?;
    let injector = OneRedis { server, clock, disk: faults::Disk::default(), kept };
    let started = behind_proxy(address, injector, url).await?;
    Ok(StartedStore {
        fence: Some(Arc::new(fences::Redis::connect(&url(address)).await?)),
        counter: Some(Arc::new(record_counters::Redis { nodes: vec![address], per_name: 3 })),
        ..started
    })
}

/// How a server is started for a fault.
pub(super) fn options_for(fault: Fault, clock: Option<&Clock>) -> RedisOptions {
    let mut options = RedisOptions::new().aof();
    if fault == Fault::SlowDisk {
        options = options.line("appendfsync always");
    }
    match clock {
        Some(clock) => options.clock(clock),
        None => options,
    }
}

/// What can befall one server.
pub(super) struct OneRedis {
    pub(super) server: Redis,
    pub(super) clock: Option<Clock>,
    pub(super) disk: faults::Disk,
    /// The length of its append-only file before there were locks.
    pub(super) kept: u64,
}

#[async_trait]
impl FaultInjector for OneRedis {
    async fn inject(&mut self, fault: Fault, name: &LockName) -> Result<String, SetUpError> {
        match fault {
            Fault::TailLost => {
                let before = self.server.lose_power(self.kept).await?;
                if before <= self.kept {
                    return Err("nothing was written since the start".into());
                }
                Ok(format!("of {before} bytes of its file {} are left", self.kept))
            }
            Fault::SlowDisk => self.disk.slow(self.server.process()).await,
            Fault::FullDisk => {
                let files = [self.server.aof()?];
                self.disk.full(self.server.process(), &files).await
            }
            Fault::ClockForward | Fault::ClockBack => {
                faults::step(self.clock.as_ref(), fault, || seconds(&self.server)).await
            }
            _ => self.server.inject(fault, name).await,
        }
    }

    async fn end_fault(&mut self, fault: Fault) -> Result<String, SetUpError> {
        match fault {
            Fault::SlowDisk | Fault::FullDisk => self.disk.end_fault(&mut self.server).await,
            Fault::ClockForward | Fault::ClockBack => {
                Ok(faults::revived(&mut self.server).await?.to_owned())
            }
            _ => self.server.end_fault(fault).await,
        }
    }
}

pub(super) async fn seconds(server: &Redis) -> faults::Seconds {
    let answer = server.cli(&["TIME"]).await?;
    Ok(answer.lines().next().unwrap_or_default().parse()?)
}
