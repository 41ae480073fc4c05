//! A client process of a run: this program, started again. A line on its standard input says what
//! it does.

use std::{net::SocketAddr, process::ExitStatus, time::Duration};

use lock_core::LockName;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::proof::clients::record::{Line, Record};
use conformance_tests::{ChildProcess, SetUpError};
use servers::{tree, wait};

/// The environment variable that tells a process that it is a client. The rest comes by standard
/// input, since a URL may contain a password.
pub(crate) const CHILD: &str = "LEASEHOLD_PROOF_CHILD";

/// What a client process does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClientSpec {
    pub(crate) process: u32,
    pub(crate) url: String,
    pub(crate) registers: SocketAddr,
    pub(crate) seed: u64,
    /// The names that it locks. The first is the victim's.
    pub(crate) names: Vec<LockName>,
    pub(crate) lease: Duration,
    pub(crate) wait: Duration,
    pub(crate) tasks: u32,
    pub(crate) operations: u32,
    pub(crate) rest: Duration,
    /// Whether some holders write without a check of their guard.
    pub(crate) careless: bool,
    pub(crate) role: Role,
}

/// The special role of a client process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Holds the first name until it loses it or gets [`Order::EndHold`], and then writes in any
    /// case.
    Victim,
    /// Always waits for the first name.
    Heir,
    /// No special role.
    Other,
}

/// A message to a running client process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The victim must end its hold.
    EndHold,
    /// The fault is over: a process ends when it has made all its operations.
    Finish,
}

/// A running client process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Client {
    process: ChildProcess,
    reader: JoinHandle<()>,
}

impl Client {
    pub(crate) async fn start(spec: &ClientSpec, record: &Record) -> Result<Self, SetUpError> {
        let mut process = ChildProcess::start(CHILD, "1")?;
        let record = record.clone();
        let reader = process.forward_lines(move |line| {
            // A killed process may have written half a line.
            if let Ok(line) = serde_json::from_str::<Line>(&line) {
                record.take(line);
            }
        });
        process.write(&serde_json::to_string(spec)?).await?;
        Ok(Self { process, reader })
    }

    pub(crate) async fn order(&mut self, order: Order) -> Result<(), SetUpError> {
        Ok(self.process.write(&serde_json::to_string(&order)?).await?)
    }

    fn id(&self) -> Result<u32, SetUpError> {
        self.process.id().ok_or_else(|| "the child has ended".into())
    }

    /// Kills it, and checks that it died by the signal.
    pub(crate) async fn kill(&mut self) -> Result<(), SetUpError> {
        let status = self.process.kill().await?;
        match std::os::unix::process::ExitStatusExt::signal(&status) {
            Some(9) => Ok(()),
            _ => Err(format!("the child was to be killed and ended with {status}").into()),
        }
    }

    /// Pauses it; on return it is stopped.
    pub(crate) async fn pause(&self) -> Result<(), SetUpError> {
        let id = self.id()?;
        self.process.signal(Signal::STOP)?;
        let stopped = || async { Ok(tree::is_stopped(id).then_some(())) };
        Ok(wait::until("a client to stop", wait::READY_WITHIN, stopped).await?)
    }

    pub(crate) fn resume(&self) -> Result<(), SetUpError> {
        Ok(self.process.signal(Signal::CONT)?)
    }

    /// Waits for its end and for its last line; `None` if it does not end within `limit`.
    pub(crate) async fn ended(mut self, limit: Duration) -> Result<Option<ExitStatus>, SetUpError> {
        match tokio::time::timeout(limit, self.process.ended()).await {
            Ok(status) => {
                self.reader.await?;
                Ok(Some(status?))
            }
            Err(_) => Ok(None),
        }
    }
}
