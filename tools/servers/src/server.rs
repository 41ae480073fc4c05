//! The common trait of all servers, so that a fault is written once for all stores.

use std::net::SocketAddr;

use async_trait::async_trait;

use crate::{error::Result, process::Process};

/// Whether a server finds its data again when it restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// The written data is there, as after a crash.
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

    /// Waits until it answers.
    async fn ready(&mut self) -> Result<()>;

    /// Makes its data those of a first start, while it does not run (default: it has none).
    async fn lose_data(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether it may lose its data (default: it may).
    fn may_lose_data(&self) -> Result<()> {
        Ok(())
    }

    /// Kills it if it runs, starts it again and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`KitError`](crate::KitError), with the end of the server's log where it has one.
    async fn restart(&mut self, data: Data) -> Result<()> {
        if data == Data::Lose {
            self.may_lose_data()?;
        }
        self.process_mut().kill()?;
        if data == Data::Lose {
            self.lose_data().await?;
        }
        self.process_mut().start_again()?;
        self.ready().await
    }

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

/// The parts of a [`Server`] with a field `process`, and a port in the field that is named.
macro_rules! process_and {
    ($port:ident) => {
        fn process(&self) -> &Process {
            &self.process
        }

        fn process_mut(&mut self) -> &mut Process {
            &mut self.process
        }

        fn address(&self) -> SocketAddr {
            self.$port.address()
        }
    };
}

/// Options that servers share, as far as they are named; the words are on TLS.
macro_rules! options {
    (flag: $(#[$what:meta])*) => {
        $(#[$what])*
        #[must_use]
        pub fn flag(mut self, flag: impl Into<String>) -> Self {
            self.flags.push(flag.into());
            self
        }
    };
    (line: $(#[$what:meta])*) => {
        $(#[$what])*
        #[must_use]
        pub fn line(mut self, line: impl Into<String>) -> Self {
            self.lines.push(line.into());
            self
        }
    };
    (tls: $(#[$what:meta])*) => {
        $(#[$what])*
        #[must_use]
        pub fn tls(mut self, client_certificates: ClientCertificates) -> Self {
            self.tls = Some(client_certificates);
            self
        }
    };
    (clock) => {
        /// Runs under these clocks (default: the machine's).
        #[must_use]
        pub fn clock(mut self, clock: &Clock) -> Self {
            self.clock = Some(clock.clone());
            self
        }
    };
}

pub(crate) use {options, process_and};
