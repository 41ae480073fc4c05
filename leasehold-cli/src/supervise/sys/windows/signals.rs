//! What asks leasehold to end: Ctrl-C, Ctrl-Break, the end of the console, of the session, of the
//! system.
//!
//! The console tells all its processes, so nothing is passed on to COMMAND.

use std::io;

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
    ctrl_logoff, ctrl_shutdown,
};

use super::TERM;

/// The number of Ctrl-C, as on Unix.
const INT: i32 = 2;

/// Catches these events, which then do not have their usual effect on leasehold.
///
/// Made before the acquire, so that none can end leasehold between the acquire and the start of the
/// job.
pub struct Signals {
    ctrl_c: CtrlC,
    ctrl_break: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl Signals {
    /// Starts catching. Needs a running tokio runtime.
    ///
    /// # Errors
    ///
    /// When a handler cannot be set up.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            ctrl_c: ctrl_c()?,
            ctrl_break: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    /// Waits for an event that asks leasehold to end, while there is no job. Returns the number of
    /// the signal that means the same; the exit code is 128 more. Cancel safe.
    pub async fn asked_to_end(&mut self) -> i32 {
        tokio::select! {
            Some(()) = self.ctrl_c.recv() => INT,
            Some(()) = self.ctrl_break.recv() => TERM,
            Some(()) = self.close.recv() => TERM,
            Some(()) = self.logoff.recv() => TERM,
            Some(()) = self.shutdown.recv() => TERM,
            else => std::future::pending().await,
        }
    }

    /// Waits for the next event, which the job has, too. Cancel safe.
    pub(in crate::supervise) async fn next_for_job(&mut self) -> i32 {
        self.asked_to_end().await
    }
}
