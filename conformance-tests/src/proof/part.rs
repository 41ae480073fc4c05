//! A client process of a run: this program again, told by a line on its standard input what to do.

use std::{
    net::SocketAddr,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use lock_core::LockName;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, Command},
    task::JoinHandle,
};

use super::record::{Line, Record};
use crate::{
    SetUpError,
    kit::{tree, wait},
};

/// Tells a process that it is a child. The rest comes by standard input, since a URL may have a
/// password in it.
pub(super) const CHILD: &str = "LEASEHOLD_PROOF_CHILD";

/// What a child does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) process: u32,
    pub(super) url: String,
    pub(super) registers: SocketAddr,
    pub(super) seed: u64,
    /// The first is the victim's.
    pub(super) names: Vec<LockName>,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
    pub(super) tasks: u32,
    pub(super) operations: u32,
    pub(super) rest: Duration,
    /// Whether some holders write without a look at their guard.
    pub(super) careless: bool,
    pub(super) role: Role,
}

/// What a child does besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    /// Holds the first name until it is lost or told to go on, and then writes, lost or not.
    Victim,
    /// Always waits for the first name.
    Heir,
    /// Nothing.
    Other,
}

/// What a child is told while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// The victim is to end its hold.
    GoOn,
    /// The fault is over: whoever has made all its operations ends.
    Enough,
}

/// A running child; killed when dropped.
#[derive(Debug)]
pub(super) struct Client {
    process: Child,
    stdin: ChildStdin,
    reader: JoinHandle<()>,
}

impl Client {
    pub(super) async fn start(part: &Part, record: &Record) -> Result<Self, SetUpError> {
        let mut process = Command::new(std::env::current_exe()?)
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let (stdin, stdout) = stdin.zip(stdout).ok_or("a child without pipes")?;
        let record = record.clone();
        let reader = tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // One that was killed may leave half of a line.
                if let Ok(line) = serde_json::from_str::<Line>(&line) {
                    record.take(line);
                }
            }
        });
        let mut client = Self { process, stdin, reader };
        client.write(&serde_json::to_string(part)?).await?;
        Ok(client)
    }

    pub(super) async fn order(&mut self, order: Order) -> Result<(), SetUpError> {
        let text = serde_json::to_string(&order)?;
        self.write(&text).await
    }

    async fn write(&mut self, text: &str) -> Result<(), SetUpError> {
        self.stdin.write_all(format!("{text}\n").as_bytes()).await?;
        Ok(self.stdin.flush().await?)
    }

    fn id(&self) -> Result<u32, SetUpError> {
        self.process.id().ok_or_else(|| "the child has ended".into())
    }

    /// Kills it, and makes sure that it died of that.
    pub(super) async fn kill(&mut self) -> Result<(), SetUpError> {
        tree::signal(self.id()?, Signal::KILL)?;
        let status = self.process.wait().await?;
        match std::os::unix::process::ExitStatusExt::signal(&status) {
            Some(9) => Ok(()),
            _ => Err(format!("the child was to be killed and ended with {status}").into()),
        }
    }

    /// Stops it; on return it does nothing any more.
    pub(super) async fn pause(&self) -> Result<(), SetUpError> {
        let id = self.id()?;
        tree::signal(id, Signal::STOP)?;
        let stopped = || async { Ok(tree::is_stopped(id).then_some(())) };
        Ok(wait::until("a client to stop", wait::READY_WITHIN, stopped).await?)
    }

    pub(super) fn resume(&self) -> Result<(), SetUpError> {
        Ok(tree::signal(self.id()?, Signal::CONT)?)
    }

    /// Waits for its end and for its last words; `None` if it does not end within `limit`.
    pub(super) async fn ended(mut self, limit: Duration) -> Result<Option<ExitStatus>, SetUpError> {
        match tokio::time::timeout(limit, self.process.wait()).await {
            Ok(status) => {
                self.reader.await?;
                Ok(Some(status?))
            }
            Err(_) => Ok(None),
        }
    }
}
