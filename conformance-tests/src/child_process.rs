//! This program again, as a child process that a test talks to, pauses and kills.

use std::{
    io,
    process::{ExitStatus, Stdio},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
};

use crate::sys::{self, Signal};

/// A running child process; killed when dropped.
#[derive(Debug)]
pub struct ChildProcess {
    process: Child,
    /// `None` after [`close_input`](Self::close_input).
    stdin: Option<ChildStdin>,
    /// `None` after [`forward_lines`](Self::forward_lines).
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl ChildProcess {
    /// Starts this program again, with one more environment variable. The variable tells the child
    /// that it is a child, and perhaps what its job is. What contains a password is better sent by
    /// [`write`](Self::write).
    ///
    /// # Errors
    /// Those of the operating system. So in the other methods.
    pub fn start(variable: &str, value: &str) -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .env(variable, value)
            // If the parent is gone, this pipe is closed: see `exit_with_parent`.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = process.stdin.take();
        let lines = process.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        Ok(Self { process, stdin, lines })
    }

    /// Writes a line to the child's standard input.
    pub async fn write(&mut self, line: &str) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(format!("{line}\n").as_bytes()).await?;
        stdin.flush().await
    }

    /// Closes the child's standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// The next line that the child prints; `None` after the last.
    pub async fn next_line(&mut self) -> io::Result<Option<String>> {
        match &mut self.lines {
            Some(lines) => lines.next_line().await,
            None => Ok(None),
        }
    }

    /// From now on passes each line that the child prints to `hear`. The task ends with the last.
    pub fn forward_lines(&mut self, hear: impl Fn(String) + Send + 'static) -> JoinHandle<()> {
        let lines = self.lines.take();
        tokio::spawn(async move {
            let Some(mut lines) = lines else { return };
            while let Ok(Some(line)) = lines.next_line().await {
                hear(line);
            }
        })
    }

    /// The process id of a child whose end nobody has waited for yet.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        sys::signal(self.id().ok_or(io::ErrorKind::NotFound)?, signal)
    }

    /// Kills the child (SIGKILL), as a crash would, and waits for its end.
    pub async fn kill(&mut self) -> io::Result<ExitStatus> {
        self.process.start_kill()?;
        self.process.wait().await
    }

    /// Waits for the child's end.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }
}

/// In a child: ends this process when its standard input closes, since then its parent is gone.
pub fn exit_with_parent() {
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
}
