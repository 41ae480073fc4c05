//! A disk that is slow to flush: `strace` holds up every `fdatasync` of a process.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    error::{Doing as _, KitError, Result},
    process::Process,
    programs, session,
    wait::{READY_WITHIN, until},
};

/// Holds up the flushes of a process until it is dropped.
#[derive(Debug)]
pub struct SlowFlush {
    tracer: Child,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl SlowFlush {
    /// Holds up each `fdatasync` by `delay`; on return all threads of the process are under it.
    ///
    /// # Errors
    ///
    /// [`KitError::Unexpected`] where the kernel does not let one process trace another, as with
    /// `kernel.yama.ptrace_scope` above 0 and without root.
    pub async fn start(process: &Process, delay: Duration) -> Result<Self> {
        let folder = tempfile::tempdir().doing(|| "make a temporary folder".to_owned())?;
        let (log, pid) = (folder.path().join("strace.log"), process.pid()?);
        let mut command = Command::new(programs::find("setpriv", "util-linux")?);
        command.args(["--pdeathsig", "KILL", "--"]).arg(programs::find("strace", "strace")?);
        let inject = format!("inject=fdatasync:delay_enter={}", delay.as_micros());
        command.args(["-f", "-qq", "-e", "trace=fdatasync", "-e", &inject, "-o"]).arg(&log);
        command.args(["-p", &pid.to_string()]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        let mut slow = Self { tracer: session::spawn(command)?, log, _folder: folder };
        until("strace to attach", READY_WITHIN, || {
            let attached = slow.look(pid);
            async move { attached }
        })
        .await?;
        Ok(slow)
    }

    fn look(&mut self, pid: u32) -> Result<Option<()>> {
        let ended = self.tracer.try_wait().doing(|| "look at strace".to_owned())?;
        if let Some(status) = ended {
            let why = format!("strace ended with {status}: may a process trace another here?");
            return Err(KitError::Unexpected(why));
        }
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
        let threads = threads.doing(|| format!("list the threads of {pid}"))?;
        let traced = threads.flatten().all(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status"));
            // A thread that has just ended counts for nothing.
            status.is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
        });
        Ok(traced.then_some(()))
    }

    /// How many flushes were held up so far.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`].
    pub fn held_up(&self) -> Result<usize> {
        let log = std::fs::read_to_string(&self.log);
        let log = log.doing(|| format!("read {}", self.log.display()))?;
        Ok(log.lines().filter(|line| line.contains("DELAYED")).count())
    }
}

impl Drop for SlowFlush {
    fn drop(&mut self) {
        // The kernel lets go of what a tracer traced when that ends.
        let _ = self.tracer.kill();
        let _ = self.tracer.wait();
    }
}
