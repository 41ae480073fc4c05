//! `strace` on the processes of a server, to alter their system calls.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::{
    error::{Doing as _, KitError, Result},
    machine::{
        programs, session,
        wait::{READY_WITHIN, until},
    },
    process::Process,
};

/// A tracer of a server's processes; it detaches when it is dropped.
#[derive(Debug)]
pub(super) struct Tracer {
    tracer: Child,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Tracer {
    /// Attaches to the process and all that it started; on return all their threads are traced.
    pub(super) async fn attach(process: &Process, args: &[String]) -> Result<Self> {
        let folder = tempfile::tempdir().doing(|| "make a temporary folder".to_owned())?;
        let (log, pids) = (folder.path().join("strace.log"), process.tree()?);
        let mut command = Command::new(programs::find("setpriv", "util-linux")?);
        command.args(["--pdeathsig", "KILL", "--"]).arg(programs::find("strace", "strace")?);
        command.args(["-f", "-qq"]).args(args).arg("-o").arg(&log);
        for pid in &pids {
            command.args(["-p", &pid.to_string()]);
        }
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        let mut traced = Self { tracer: session::spawn(command)?, log, _folder: folder };
        until("strace to attach", READY_WITHIN, || {
            let attached = traced.look(&pids);
            async move { attached }
        })
        .await?;
        Ok(traced)
    }

    fn look(&mut self, pids: &[u32]) -> Result<Option<()>> {
        let ended = self.tracer.try_wait().doing(|| "look at strace".to_owned())?;
        if let Some(status) = ended {
            let why = format!(
                "strace ended with {status}: check that this system lets a process trace another \
                 (kernel.yama.ptrace_scope)"
            );
            return Err(KitError::Unexpected(why));
        }
        let all = pids.iter().all(|pid| {
            // One of the server's processes may have just ended.
            let Ok(mut threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
                return true;
            };
            threads.all(|thread| {
                let status =
                    thread.and_then(|it| std::fs::read_to_string(it.path().join("status")));
                status.map_or(true, |status| !status.contains("TracerPid:\t0\n"))
            })
        });
        Ok(all.then_some(()))
    }

    /// How many calls were altered so far: the log's lines with `word`, which is strace's name for
    /// the change.
    pub(super) fn count(&self, word: &str) -> Result<usize> {
        let log = std::fs::read_to_string(&self.log);
        let log = log.doing(|| format!("read {}", self.log.display()))?;
        Ok(log.lines().filter(|line| line.contains(word)).count())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // The kernel detaches traced processes when their tracer ends.
        let _ = self.tracer.kill();
        let _ = self.tracer.wait();
    }
}
