//! One server process: started, paused, killed, started again, and never left behind.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    future::Future,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::Signal;

use crate::{
    error::{Doing as _, KitError, Result},
    machine::{
        account::Account,
        programs, session, tree,
        wait::{READY_WITHIN, until, until_blocking},
    },
};

/// `setpriv` asks the kernel to kill this process when its parent dies. A parent that died just
/// before has left it to somebody else by now, which the shell sees. `$0` is the parent's id.
const UNLESS_ORPHANED: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

const LOG_TAIL: usize = 4000;

/// The program and its arguments, so that it can be run again.
#[derive(Debug)]
pub struct Spec {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    account: Option<Account>,
}

impl Spec {
    /// A program with a name for messages, such as "redis on port 20123".
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            account: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable, besides those of this process.
    #[must_use]
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets more environment variables, such as those of a [`Clock`](crate::Clock).
    #[must_use]
    pub fn envs(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.env.extend(variables);
        self
    }

    /// Runs the program as another account. Default: the account of the tests.
    #[must_use]
    pub fn account(mut self, account: Option<Account>) -> Self {
        self.account = account;
        self
    }
}

/// A server process with a temporary folder of its own, which holds its log.
///
/// It is killed and its folder removed when this value is dropped, also by a panic. When the test
/// process itself is killed, the kernel kills the server and the janitor of `session.rs` removes
/// the folder.
#[derive(Debug)]
pub struct Process {
    spec: Spec,
    child: Option<Child>,
    folder: tempfile::TempDir,
}

impl Process {
    /// A temporary folder for a process that is yet to start. Its data and config go in there.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`].
    pub fn folder_for(account: Option<&Account>) -> Result<tempfile::TempDir> {
        let folder = tempfile::Builder::new()
            .prefix("server-")
            .tempdir_in(session::folder()?)
            .doing(|| "make a temporary folder".to_owned())?;
        if let Some(account) = account {
            account.give(folder.path())?;
        }
        Ok(folder)
    }

    /// Starts a process; it is not yet ready to serve.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`] or [`KitError::MissingProgram`].
    pub fn start(spec: Spec, folder: tempfile::TempDir) -> Result<Self> {
        let mut process = Self { spec, child: None, folder };
        process.start_again()?;
        Ok(process)
    }

    /// Starts it with what is in its folder, after [`kill`](Self::kill) or [`stop`](Self::stop).
    /// One that still runs is killed first.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) -> Result<()> {
        self.kill()?;
        let log = File::options().create(true).append(true).open(self.log_path());
        let log = log.doing(|| format!("open {}", self.log_path().display()))?;
        let log_too = log.try_clone().doing(|| "share a log file".to_owned())?;

        let mut command = Command::new(programs::find("setpriv", "util-linux")?);
        command.args(["--pdeathsig", "KILL"]);
        if let Some(account) = &self.spec.account {
            command.args(account.setpriv_args());
        }
        command
            .args(["--", "sh", "-c", UNLESS_ORPHANED])
            .arg(std::process::id().to_string())
            .arg(&self.spec.program)
            .args(&self.spec.args)
            .envs(self.spec.env.iter().map(|(key, value)| (key, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            // A terminal's Ctrl-C is for the tests; they end their servers themselves.
            .process_group(0);
        self.child = Some(session::spawn(command)?);
        Ok(())
    }

    /// Waits until `ready` says yes.
    ///
    /// # Errors
    ///
    /// [`KitError::Exited`] as soon as the process ends, [`KitError::TimedOut`] after a minute,
    /// both with the end of its log.
    pub async fn ready<F, Fut>(&mut self, mut ready: F) -> Result<()>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = bool>,
    {
        let what = format!("{} to get ready", self.spec.name);
        // The process is looked at first: it never counts as ready after its end.
        let waited = until(&what, READY_WITHIN, || {
            let ended = self.ended();
            let answer = ready();
            async move {
                ended?;
                Ok(answer.await.then_some(()))
            }
        })
        .await;
        match waited {
            Err(KitError::TimedOut { what, waited, .. }) => {
                Err(KitError::TimedOut { what, waited, log: self.log_tail() })
            }
            done => done,
        }
    }

    fn ended(&mut self) -> Result<()> {
        match self.try_status()? {
            None => Ok(()),
            Some(status) => Err(KitError::Exited {
                server: self.spec.name.clone(),
                status,
                log: self.log_tail(),
            }),
        }
    }

    fn try_status(&mut self) -> Result<Option<ExitStatus>> {
        let not_running = || KitError::NotRunning { server: self.spec.name.clone() };
        let child = self.child.as_mut().ok_or_else(not_running)?;
        child.try_wait().doing(|| format!("look at process {}", child.id()))
    }

    /// Whether it runs (a paused process does). One that ended by itself is reaped by this.
    pub fn is_running(&mut self) -> bool {
        matches!(self.try_status(), Ok(None))
    }

    /// Its process id.
    ///
    /// # Errors
    ///
    /// [`KitError::NotRunning`] after a kill or stop.
    pub fn pid(&self) -> Result<u32> {
        let not_running = || KitError::NotRunning { server: self.spec.name.clone() };
        self.child.as_ref().map(Child::id).ok_or_else(not_running)
    }

    /// Its name, for messages.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The ids of the process and of all that it started.
    ///
    /// # Errors
    ///
    /// [`KitError::NotRunning`].
    pub fn tree(&self) -> Result<Vec<u32>> {
        let root = self.pid()?;
        let mut pids = vec![root];
        pids.extend(tree::descendants(root)?);
        Ok(pids)
    }

    /// Stops it in its tracks (SIGSTOP) with all that it started; on return none of them runs. The
    /// kernel still accepts connections for it and buffers what clients send.
    ///
    /// # Errors
    ///
    /// [`KitError::NotRunning`].
    pub fn pause(&self) -> Result<()> {
        until_blocking(&format!("{} to stop", self.spec.name), READY_WITHIN, || {
            // A member seen running may have started another meanwhile, so look until all stand.
            let pids = self.tree()?;
            if pids.iter().all(|pid| tree::is_stopped(*pid)) {
                return Ok(true);
            }
            session::note_paused(&pids, true)?;
            pids.iter().try_for_each(|pid| tree::signal(*pid, Signal::STOP))?;
            Ok(false)
        })
    }

    /// Lets it go on (SIGCONT) after [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// [`KitError::NotRunning`].
    pub fn resume(&self) -> Result<()> {
        let pids = self.tree()?;
        pids.iter().try_for_each(|pid| tree::signal(*pid, Signal::CONT))?;
        session::note_paused(&pids, false)
    }

    /// Kills it (SIGKILL) with all that it started, as a loss of power would end them all at once;
    /// on return all are gone. A process that does not run already is no error.
    ///
    /// # Errors
    ///
    /// [`KitError::TimedOut`] if the kernel does not end it.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let root = child.id();
        let mut others = Vec::new();
        let ended = child.try_wait().doing(|| format!("look at process {root}"))?;
        if ended.is_none() {
            // Stopped, it starts no further ones while we look for them.
            tree::signal(root, Signal::STOP)?;
            until_blocking("a process to stop", READY_WITHIN, || Ok(tree::is_stopped(root)))?;
            others = tree::descendants(root)?;
            child.kill().doing(|| format!("kill process {root}"))?;
            others.iter().try_for_each(|pid| tree::signal(*pid, Signal::KILL))?;
            child.wait().doing(|| format!("reap process {root}"))?;
        }
        until_blocking("killed processes to end", READY_WITHIN, || {
            Ok(!others.iter().any(|pid| tree::is_alive(*pid)))
        })?;
        others.push(root);
        session::note_paused(&others, false)
    }

    /// Asks it to end by a signal, and waits until it has: a clean shutdown.
    ///
    /// # Errors
    ///
    /// [`KitError::NotRunning`], or [`KitError::TimedOut`] if it does not end.
    pub async fn stop(&mut self, signal: Signal) -> Result<()> {
        tree::signal(self.pid()?, signal)?;
        self.wait_ended(READY_WITHIN).await?;
        Ok(())
    }

    /// Waits until the process has ended by itself, and reaps it.
    ///
    /// # Errors
    ///
    /// [`KitError::TimedOut`] if it still runs at the deadline.
    pub async fn wait_ended(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let what = format!("{} to end", self.spec.name);
        let status = until(&what, deadline, || {
            let ended = self.try_status();
            async move { ended }
        })
        .await?;
        self.child = None;
        Ok(status)
    }

    /// Its temporary folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// The end of its standard output and error.
    pub fn log_tail(&self) -> String {
        let Ok(log) = std::fs::read(self.log_path()) else { return "(no log)".to_owned() };
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL)..]).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is there to tell; the parent-death signal is the second net.
        let _ = self.kill();
    }
}
