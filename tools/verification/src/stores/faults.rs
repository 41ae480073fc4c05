//! Faults that are the same for several stores: clocks, disks, restored copies.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use lock_core::LockName;
use rustix::process::Signal;

use super::FLUSH;
use crate::proof::{Fault, FaultInjector};
use conformance_tests::SetUpError;
use servers::{Clock, ColdCopy, Data, FullDisk, Process, Server, SlowFlush};

/// The longest lease of a store. For a restored copy, a guard must stay valid for longer than the
/// server takes to start.
pub(super) fn longest_lease(fault: Fault) -> &'static str {
    if fault == Fault::Restored { "8s" } else { "2s" }
}

/// The wall clock of a server, as it reports it, in seconds.
pub(super) type Seconds = Result<f64, SetUpError>;

/// For a fault of the clock: the clock under which the server must be started.
pub(super) async fn clock_for(fault: Fault) -> Result<Option<Clock>, SetUpError> {
    Ok(match fault {
        Fault::ClockForward | Fault::ClockBack => Some(Clock::new().await?),
        _ => None,
    })
}

/// Steps the clock, and checks that the server reads the new time.
pub(super) async fn step<F: Future<Output = Seconds>>(
    clock: Option<&Clock>,
    fault: Fault,
    reads: impl Fn() -> F,
) -> Result<String, SetUpError> {
    let clock = clock.ok_or("the server was not started under a clock that can be set")?;
    let by = if fault == Fault::ClockBack { -60.0 } else { 3_600.0 };
    let before = reads().await?;
    clock.step(by)?;
    let after = reads().await?;
    if ((after - before) - by).abs() > 30.0 {
        return Err(format!("the clock went from {before} to {after}, not by {by} s").into());
    }
    Ok(format!("the server's clock was stepped by {:.0} s", after - before))
}

/// A disk that is slow or full.
#[derive(Debug, Default)]
pub(super) struct Disk {
    slow: Vec<SlowFlush>,
    full: Vec<FullDisk>,
}

impl Disk {
    pub(super) async fn slow(&mut self, process: &Process) -> Result<String, SetUpError> {
        self.slow.push(SlowFlush::start(process, FLUSH).await?);
        Ok(format!("each flush takes {FLUSH:?} longer"))
    }

    pub(super) async fn full(
        &mut self,
        process: &Process,
        files: &[PathBuf],
    ) -> Result<String, SetUpError> {
        if files.is_empty() {
            return Err("there is no file whose writes could fail".into());
        }
        self.full.push(FullDisk::start(process, files).await?);
        Ok(format!("writes to {} files fail", files.len()))
    }

    /// Ends the fault, which must have affected a call.
    pub(super) async fn end_fault(
        &mut self,
        server: &mut impl Server,
    ) -> Result<String, SetUpError> {
        let mut words = self.felt()?;
        let revived = revived(server).await?;
        if !revived.is_empty() {
            words += "; ";
        }
        Ok(words + revived)
    }

    /// The same, without a look at the server.
    pub(super) fn felt(&mut self) -> Result<String, SetUpError> {
        let mut felt = Vec::new();
        for slow in self.slow.drain(..) {
            felt.push((slow.held_up()?, "flushes were delayed"));
        }
        for full in self.full.drain(..) {
            felt.push((full.failed()?, "writes failed"));
        }
        if felt.is_empty() || felt.iter().any(|(count, _)| *count == 0) {
            return Err("the disk's fault did not happen: no call was affected".into());
        }
        let words: Vec<_> = felt.iter().map(|(count, what)| format!("{count} {what}")).collect();
        Ok(words.join(", "))
    }
}

/// Starts a server again if it has ended by itself, as a server may that cannot write its log.
pub(super) async fn revived(server: &mut impl Server) -> Result<&'static str, SetUpError> {
    // A server that is about to end does so soon.
    tokio::time::sleep(Duration::from_millis(200)).await;
    if server.process_mut().is_running() {
        return Ok("");
    }
    server.restart(Data::Keep).await?;
    Ok("the server had ended by itself, and was started again")
}

/// What differs between PostgreSQL and MariaDB.
#[async_trait]
pub(super) trait Database: Server {
    /// Stops the server in order.
    const STOP: Signal;
    /// Ends the server before its copy is restored.
    const END: Signal;
    /// Asks for the wall clock, in seconds.
    const CLOCK: &'static str;

    /// The files of its log, without which it cannot commit.
    fn log_files(&self) -> std::io::Result<Vec<PathBuf>>;

    async fn query(&self, sql: &str) -> Result<String, SetUpError>;
}

/// One database server and its faults.
pub(super) struct OneDatabase<D> {
    server: D,
    clock: Option<Clock>,
    copy: Option<ColdCopy>,
    disk: Disk,
}

impl<D: Database> OneDatabase<D> {
    /// Makes a copy of the data, if the fault needs one, and then a table that is not in the copy.
    pub(super) async fn new(
        mut server: D,
        clock: Option<Clock>,
        fault: Fault,
    ) -> Result<Self, SetUpError> {
        let mut copy = None;
        if fault == Fault::Restored {
            copy = Some(ColdCopy::take(&mut server, D::STOP).await?);
            server.query("CREATE TABLE not_in_the_copy (x INT)").await?;
        }
        Ok(Self { server, clock, copy, disk: Disk::default() })
    }

    async fn restore(&mut self) -> Result<String, SetUpError> {
        let copy = self.copy.as_ref().ok_or("no copy was made")?;
        copy.restore(&mut self.server, D::END).await?;
        let later = "SELECT count(*) FROM information_schema.tables \
                     WHERE table_name = 'not_in_the_copy'";
        match self.server.query(later).await?.as_str() {
            "0" => Ok("what was written after the copy was made is gone".to_owned()),
            other => Err(format!("the data is not the copy's: it has {other} later tables").into()),
        }
    }
}

#[async_trait]
impl<D: Database> FaultInjector for OneDatabase<D> {
    async fn inject(&mut self, fault: Fault, name: &LockName) -> Result<String, SetUpError> {
        match fault {
            Fault::Restored => self.restore().await,
            Fault::SlowDisk => self.disk.slow(self.server.process()).await,
            Fault::FullDisk => {
                self.disk.full(self.server.process(), &self.server.log_files()?).await
            }
            Fault::ClockForward | Fault::ClockBack => {
                let reads = || async { Ok(self.server.query(D::CLOCK).await?.parse()?) };
                step(self.clock.as_ref(), fault, reads).await
            }
            _ => self.server.inject(fault, name).await,
        }
    }

    async fn end_fault(&mut self, fault: Fault) -> Result<String, SetUpError> {
        match fault {
            Fault::SlowDisk | Fault::FullDisk => self.disk.end_fault(&mut self.server).await,
            Fault::ClockForward | Fault::ClockBack => {
                Ok(revived(&mut self.server).await?.to_owned())
            }
            _ => self.server.end_fault(fault).await,
        }
    }
}
