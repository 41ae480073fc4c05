//! Faults that several stores have in the same way.

use std::{path::PathBuf, time::Duration};

use super::FLUSH;
use crate::{
    SetUpError,
    kit::{Clock, Data, FullDisk, Process, Server, SlowFlush},
    proof::Fault,
};

/// The longest lease of a store. Where a copy is put back, a holder is to believe for longer than the
/// server takes to start.
pub(super) fn longest_lease(fault: Fault) -> &'static str {
    if fault == Fault::Restored { "8s" } else { "2s" }
}

/// Tables that were made after the copy was taken.
pub(super) const LATER: &str =
    "SELECT count(*) FROM information_schema.tables WHERE table_name = 'not_in_the_copy'";

/// Tells that a copy has taken the place of the data.
pub(super) fn put_back(later: &str) -> Result<String, SetUpError> {
    match later {
        "0" => Ok("what was written after the copy is gone".to_owned()),
        other => Err(format!("{other} tables are there that the copy does not have").into()),
    }
}

/// The wall clock of a server, by its own account, in seconds.
pub(super) type Seconds = Result<f64, SetUpError>;

/// By how much a clock fault steps, in seconds.
pub(super) fn step_of(fault: Fault) -> f64 {
    if fault == Fault::ClockBack { -60.0 } else { 3_600.0 }
}

/// Whether a server is to be started under a clock of ours.
pub(super) fn needs_clock(fault: Fault) -> bool {
    matches!(fault, Fault::ClockForward | Fault::ClockBack)
}

/// A clock of ours for a fault of the clock.
pub(super) async fn clock_for(fault: Fault) -> Result<Option<Clock>, SetUpError> {
    Ok(if needs_clock(fault) { Some(Clock::new().await?) } else { None })
}

/// Steps the clock, and sees that the server saw it.
pub(super) async fn step<F: Future<Output = Seconds>>(
    clock: Option<&Clock>,
    fault: Fault,
    reads: impl Fn() -> F,
) -> Result<String, SetUpError> {
    let clock = clock.ok_or("the server has a clock of its own")?;
    let (before, by) = (reads().await?, step_of(fault));
    clock.step(by)?;
    let after = reads().await?;
    if ((after - before) - by).abs() > 30.0 {
        return Err(format!("the clock went from {before} to {after}, not by {by} s").into());
    }
    Ok(format!("the server's clock went by {:.0} s", after - before))
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
        Ok(format!("each flush takes {FLUSH:?} more"))
    }

    pub(super) async fn full(
        &mut self,
        process: &Process,
        files: &[PathBuf],
    ) -> Result<String, SetUpError> {
        if files.is_empty() {
            return Err("no file to which nothing could be written".into());
        }
        self.full.push(FullDisk::start(process, files).await?);
        Ok(format!("nothing can be written to {} files", files.len()))
    }

    /// Makes it well again; it must have been felt.
    pub(super) async fn heal(&mut self, server: &mut impl Server) -> Result<String, SetUpError> {
        let mut words = self.felt()?;
        let revived = revived(server).await?;
        if !revived.is_empty() {
            words += "; ";
        }
        Ok(words + revived)
    }

    /// The same, with the server left as it is.
    pub(super) fn felt(&mut self) -> Result<String, SetUpError> {
        let mut felt = Vec::new();
        for slow in self.slow.drain(..) {
            felt.push((slow.held_up()?, "flushes were held up"));
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

/// Starts a server again that has ended by itself meanwhile, as one may that cannot write its log.
pub(super) async fn revived(server: &mut impl Server) -> Result<&'static str, SetUpError> {
    // One that is about to end does so soon.
    tokio::time::sleep(Duration::from_millis(200)).await;
    if server.process_mut().is_running() {
        return Ok("");
    }
    server.restart(Data::Keep).await?;
    Ok("it had ended by itself, and was started again")
}
