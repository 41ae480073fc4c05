//! ZooKeeper: one server or an ensemble of three.

mod jars;
mod member;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use futures_util::future::{join_all, try_join_all};

pub use self::member::ZooKeeperMember;
use crate::{
    error::Result,
    faults::proxy::Proxy,
    machine::{
        ports,
        tls::{Certificates, ClientCertificates},
        wait::{READY_WITHIN, until},
    },
    server::{Server as _, options},
};

/// How to start a [`ZooKeeper`].
#[derive(Clone, Debug)]
pub struct ZooKeeperOptions {
    tick: Duration,
    lines: Vec<String>,
    jars: Option<PathBuf>,
    peers_by_proxy: bool,
    sasl_user: Option<(String, String)>,
    tls: Option<ClientCertificates>,
}

impl Default for ZooKeeperOptions {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(200),
            lines: Vec::new(),
            jars: None,
            peers_by_proxy: false,
            sasl_user: None,
            tls: None,
        }
    }
}

impl ZooKeeperOptions {
    /// A tick of 200 ms instead of 2 s, sessions of up to 200 ticks, and any number of connections.
    pub fn new() -> Self {
        Self::default()
    }

    options! { line:
        /// Adds a line to the configuration, which wins over the kit's own: `maxClientCnxns=60`.
    }

    options! { tls:
        /// Also listens for TLS on a port of its own (default: off).
    }

    /// The length of a tick. Sessions last at least two ticks.
    #[must_use]
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// The folder with the jars of the server (default: the folder that the environment variable
    /// `LEASEHOLD_ZOOKEEPER_JARS` names, and otherwise the jars of Debian's package).
    #[must_use]
    pub fn jars(mut self, folder: impl Into<PathBuf>) -> Self {
        self.jars = Some(folder.into());
        self
    }

    /// The name and the password of a user who may authenticate by SASL with DIGEST-MD5.
    #[must_use]
    pub fn sasl_user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.sasl_user = Some((name.into(), password.into()));
        self
    }

    /// A member reaches each other member by a proxy of its own; see [`ZooKeeper::link`]. Default:
    /// directly.
    #[must_use]
    pub fn peers_by_proxy(mut self) -> Self {
        self.peers_by_proxy = true;
        self
    }
}

/// A running ZooKeeper of one or more members.
#[derive(Debug)]
pub struct ZooKeeper {
    members: Vec<ZooKeeperMember>,
}

impl ZooKeeper {
    /// Starts one server that is no ensemble, and waits until it serves.
    ///
    /// # Errors
    ///
    /// [`KitError`](crate::KitError), with the end of the server's log where it has one.
    pub async fn single(options: ZooKeeperOptions) -> Result<Self> {
        Self::start(1, options).await
    }

    /// Starts an ensemble of three, and waits until all members serve.
    ///
    /// # Errors
    ///
    /// As [`single`](Self::single).
    pub async fn three(options: ZooKeeperOptions) -> Result<Self> {
        Self::start(3, options).await
    }

    async fn start(count: usize, options: ZooKeeperOptions) -> Result<Self> {
        ports::retry_taken(|| async {
            let mut zookeeper = Self { members: member::start(count, &options).await? };
            zookeeper.wait_healthy().await?;
            Ok(zookeeper)
        })
        .await
    }

    /// Waits until every running member serves.
    ///
    /// # Errors
    ///
    /// As [`Process::ready`](crate::Process::ready).
    pub async fn wait_healthy(&mut self) -> Result<()> {
        let running = self.members.iter_mut().filter(|member| member.process().pid().is_ok());
        try_join_all(running.map(ZooKeeperMember::wait_serving)).await.map(drop)
    }

    /// The members.
    pub fn members(&self) -> &[ZooKeeperMember] {
        &self.members
    }

    /// A member, to kill or restart it.
    pub fn member_mut(&mut self, index: usize) -> &mut ZooKeeperMember {
        &mut self.members[index]
    }

    /// Where clients connect.
    pub fn endpoints(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.address()).collect()
    }

    /// Where clients connect with TLS, if it has that.
    pub fn tls_endpoints(&self) -> Vec<SocketAddr> {
        self.members.iter().filter_map(ZooKeeperMember::tls_address).collect()
    }

    /// The certificates for clients, if it has TLS. All members show the same.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.members.first().and_then(ZooKeeperMember::certificates)
    }

    /// The proxy by which one member reaches another one that leads, of
    /// [`ZooKeeperOptions::peers_by_proxy`].
    pub fn link(&self, from: usize, to: usize) -> Option<&Proxy> {
        self.members[from].link(to)
    }

    /// The index of the leader, by the members' own account; waits while there is none. Paused and
    /// killed members do not count.
    ///
    /// # Errors
    ///
    /// [`KitError::TimedOut`](crate::KitError::TimedOut) if none is elected.
    pub async fn leader(&self) -> Result<usize> {
        until("a ZooKeeper leader", READY_WITHIN, || {
            let modes = join_all(self.members.iter().map(ZooKeeperMember::mode));
            async move { Ok(modes.await.iter().position(|mode| mode.as_deref() == Some("leader"))) }
        })
        .await
    }

    /// Kills all members at once, runs `change` on each, and starts them again.
    async fn while_down(&mut self, change: impl Fn(&ZooKeeperMember) -> Result<()>) -> Result<()> {
        for member in &mut self.members {
            member.process_mut().kill()?;
        }
        self.members.iter().try_for_each(change)?;
        for member in &mut self.members {
            member.process_mut().start_again()?;
        }
        self.wait_healthy().await
    }

    /// Copies the data of all members while they run, as a backup does.
    ///
    /// # Errors
    ///
    /// [`KitError::Unexpected`](crate::KitError::Unexpected) if that fails.
    pub fn save_data(&self) -> Result<()> {
        self.members.iter().try_for_each(ZooKeeperMember::save_data)
    }

    /// Kills all members and starts them with the data of the last [`save_data`](Self::save_data).
    /// Sessions and nodes since then are gone. An ensemble elects a leader with a new epoch.
    ///
    /// # Errors
    ///
    /// As [`single`](Self::single).
    pub async fn restore_data(&mut self) -> Result<()> {
        self.while_down(ZooKeeperMember::restore_data).await
    }

    /// Kills all members and starts them again with their data.
    ///
    /// # Errors
    ///
    /// As [`single`](Self::single).
    pub async fn crash(&mut self) -> Result<()> {
        self.while_down(|_| Ok(())).await
    }
}
