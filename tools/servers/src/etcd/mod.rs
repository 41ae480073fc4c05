//! etcd: one member or a cluster.
//!
//! The clock shim has no effect on etcd: Go reads the clock without the C library.

mod member;
mod snapshot;
mod streams;

use std::{net::SocketAddr, path::Path, process::Command};

use futures_util::future::{join_all, try_join_all};

pub use self::{member::Member, streams::Streams};
use crate::{
    error::Result,
    machine::{
        ports, programs,
        tls::{Certificates, ClientCertificates},
        wait::{READY_WITHIN, until},
    },
    server::{Server as _, options},
};

/// How to start an [`Etcd`].
#[derive(Clone, Debug, Default)]
pub struct EtcdOptions {
    flags: Vec<String>,
    quota_bytes: Option<u64>,
    tls: Option<ClientCertificates>,
    root_password: Option<String>,
    peers_by_proxy: bool,
}

impl EtcdOptions {
    /// Fast timers (a heartbeat of 20 ms, elections after 200 ms: the smallest lease is 1 s), no
    /// TLS, no users.
    pub fn new() -> Self {
        Self::default()
    }

    options! { flag:
        /// Adds a flag, which wins over the kit's own: `--heartbeat-interval=100`.
    }

    /// Limits the database (default: etcd's own 2 GB); beyond it etcd raises an alarm and refuses
    /// writes.
    #[must_use]
    pub fn quota_bytes(mut self, bytes: u64) -> Self {
        self.quota_bytes = Some(bytes);
        self
    }

    options! { tls:
        /// Takes clients by TLS only (default: without TLS).
    }

    /// Turns authentication on, with this password for user `root` (default: off).
    #[must_use]
    pub fn root_password(mut self, password: impl Into<String>) -> Self {
        self.root_password = Some(password.into());
        self
    }

    /// Members reach each other by proxies only; see [`Member::peer_proxy`]. Default: directly.
    #[must_use]
    pub fn peers_by_proxy(mut self) -> Self {
        self.peers_by_proxy = true;
        self
    }
}

/// A running etcd of one or more members.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    options: EtcdOptions,
}

impl Etcd {
    /// Starts one member that is its own cluster, and waits until it serves.
    ///
    /// # Errors
    ///
    /// [`KitError`](crate::KitError), with the end of the server's log where it has one.
    pub async fn single(options: EtcdOptions) -> Result<Self> {
        Self::start(1, options).await
    }

    /// Starts a cluster of three, and waits until all members serve.
    ///
    /// # Errors
    ///
    /// As [`single`](Self::single).
    pub async fn three(options: EtcdOptions) -> Result<Self> {
        Self::start(3, options).await
    }

    async fn start(count: usize, options: EtcdOptions) -> Result<Self> {
        ports::retry_taken(|| async {
            let members = member::start(count, &options).await?;
            let mut etcd = Self { members, options: options.clone() };
            etcd.wait_healthy().await?;
            etcd.turn_on_auth().await?;
            Ok(etcd)
        })
        .await
    }

    async fn turn_on_auth(&self) -> Result<()> {
        let Some(password) = &self.options.root_password else { return Ok(()) };
        // The password goes by standard input otherwise, of which the kit's commands have none; the
        // argument is seen by users of this machine, in a test's server only.
        for args in [
            &["user", "add", &format!("root:{password}")][..],
            &["user", "grant-role", "root", "root"],
            &["auth", "enable"],
        ] {
            let mut command = self.bare_command()?;
            command.args(args);
            programs::run(command).await?;
        }
        Ok(())
    }

    /// Waits until every running member serves reads that need a majority.
    ///
    /// # Errors
    ///
    /// As [`Process::ready`](crate::Process::ready).
    pub async fn wait_healthy(&mut self) -> Result<()> {
        let running = self.members.iter_mut().filter(|member| member.process().pid().is_ok());
        try_join_all(running.map(Member::wait_healthy)).await.map(drop)
    }

    /// The members.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// A member, to kill or restart it.
    pub fn member_mut(&mut self, index: usize) -> &mut Member {
        &mut self.members[index]
    }

    /// Where clients connect.
    pub fn endpoints(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.address()).collect()
    }

    /// The certificates for clients, if it has TLS. All members show the same.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.members.first().and_then(Member::certificates)
    }

    /// The index of the leader, by the members' own account; waits while there is none. Paused and
    /// killed members are not asked and not counted.
    ///
    /// # Errors
    ///
    /// [`KitError::TimedOut`](crate::KitError::TimedOut) if none is elected.
    pub async fn leader(&self) -> Result<usize> {
        until("an etcd leader", READY_WITHIN, || {
            let answers = join_all(self.members.iter().map(Member::is_leader));
            async move { Ok(answers.await.into_iter().position(|is_leader| is_leader)) }
        })
        .await
    }

    /// Runs `etcdctl` (API 3) against all members, as `root` where there are users; returns its
    /// output without the last newline.
    ///
    /// # Errors
    ///
    /// [`KitError::Command`](crate::KitError::Command) with what it says.
    pub async fn ctl(&self, args: &[&str]) -> Result<String> {
        let mut command = self.ctl_command()?;
        command.args(args);
        Ok(programs::run(command).await?.trim_end_matches('\n').to_owned())
    }

    /// `etcdctl` set up to reach this etcd, without arguments yet: for a child that stays, such as
    /// `etcdctl lock NAME`.
    ///
    /// # Errors
    ///
    /// [`KitError::MissingProgram`](crate::KitError::MissingProgram).
    pub fn ctl_command(&self) -> Result<Command> {
        let mut command = self.bare_command()?;
        if let Some(password) = &self.options.root_password {
            command.env("ETCDCTL_USER", format!("root:{password}"));
        }
        Ok(command)
    }

    fn bare_command(&self) -> Result<Command> {
        let urls: Vec<_> = self.members.iter().map(Member::client_url).collect();
        let mut command = Command::new(programs::find("etcdctl", "etcd-client")?);
        command.env("ETCDCTL_API", "3").env("ETCDCTL_ENDPOINTS", urls.join(","));
        if let Some(files) = self.certificates() {
            command
                .env("ETCDCTL_CACERT", &files.ca)
                .env("ETCDCTL_CERT", &files.client_cert)
                .env("ETCDCTL_KEY", &files.client_key);
        }
        Ok(command)
    }

    /// Writes a snapshot of the first member's data to a file.
    ///
    /// # Errors
    ///
    /// As [`ctl`](Self::ctl).
    pub async fn save_snapshot(&self, file: &Path) -> Result<()> {
        let mut command = self.ctl_command()?;
        // A snapshot is of one member.
        command.env("ETCDCTL_ENDPOINTS", self.members[0].client_url());
        command.args(["snapshot", "save"]).arg(file);
        programs::run(command).await.map(drop)
    }

    /// Kills all members and starts them on the data of a snapshot, with the same names, URLs and
    /// cluster token, as an operator does by the flags of the installation. The revision
    /// goes back, and leases and keys since then are gone.
    ///
    /// # Errors
    ///
    /// As [`ctl`](Self::ctl) and [`single`](Self::single).
    pub async fn restore_snapshot(&mut self, file: &Path) -> Result<()> {
        for member in &mut self.members {
            member.process_mut().kill()?;
        }
        for member in &mut self.members {
            snapshot::restore(member, file).await?;
        }
        for member in &mut self.members {
            member.process_mut().start_again()?;
        }
        self.wait_healthy().await
    }
}
