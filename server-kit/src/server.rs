//! What all servers have in common, so that a fault is written once for every store.

use std::net::SocketAddr;

use async_trait::async_trait;

use super::{error::Result, process::Process};

/// Whether a server finds its data again when it restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// What it had written is there: a crash.
    Keep,
    /// Nothing is there: the machine was replaced.
    Lose,
}

/// One server process of a store, for faults that are the same whatever it speaks.
#[async_trait]
pub trait Server: Send + Sync {
    /// Its process.
    fn process(&self) -> &Process;

    /// Its process, to kill or stop it.
    fn process_mut(&mut self) -> &mut Process;

    /// Where its clients connect, without TLS if it has both. It stays the same over restarts.
    fn address(&self) -> SocketAddr;

    /// Kills it if it runs, starts it again and waits until it answers.
    async fn restart(&mut self, data: Data) -> Result<()>;

    /// Stops all its processes (SIGSTOP).
    ///
    /// # Errors
    ///
    /// As [`Process::pause`].
    fn pause(&self) -> Result<()> {
        self.process().pause()
    }

    /// Lets them go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// As [`Process::resume`].
    fn resume(&self) -> Result<()> {
        self.process().resume()
    }

    /// Kills all its processes (SIGKILL).
    ///
    /// # Errors
    ///
    /// As [`Process::kill`].
    fn kill(&mut self) -> Result<()> {
        self.process_mut().kill()
    }
}
