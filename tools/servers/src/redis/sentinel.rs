//! A Redis master with replicas, watched by sentinels that fail over.

use std::{net::SocketAddr, process::Command, time::Duration};

use futures_util::future::try_join_all;
use tempfile::TempDir;

use crate::{
    error::{Doing as _, KitError, Result},
    machine::{
        ports::{self, Port},
        programs,
        tls::Certificates,
        wait::{READY_WITHIN, until},
    },
    process::{Process, Spec},
    redis::server::{Redis, RedisOptions, answers},
};

/// Sentinels call a master dead that has been silent for this long, unless told otherwise.
const DOWN_AFTER: Duration = Duration::from_millis(500);
const MAJORITY: usize = 2;

/// Three sentinels, a master and its replicas.
#[derive(Debug)]
pub struct Sentinels {
    /// Every data server; which is the master changes with each failover.
    servers: Vec<Redis>,
    sentinels: Vec<Sentinel>,
    certificates: Option<(TempDir, Certificates)>,
}

#[derive(Debug)]
struct Sentinel {
    process: Process,
    port: Port,
    tls: Option<Port>,
}

impl Sentinels {
    /// The name under which the sentinels know the master.
    pub const MASTER: &str = "main";

    /// Starts a master, `replicas` replicas and three sentinels; returns once all replicas are in
    /// step with the master and all sentinels know of each other and of the replicas.
    ///
    /// # Errors
    ///
    /// [`KitError`], with the end of a server's log where it has one.
    pub async fn start(replicas: usize, options: RedisOptions) -> Result<Self> {
        Self::start_patient(replicas, options, DOWN_AFTER).await
    }

    /// The same, with a master called dead only after `down_after` of silence: for tests in which
    /// none is to be replaced because the machine is busy.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_patient(
        replicas: usize,
        options: RedisOptions,
        down_after: Duration,
    ) -> Result<Self> {
        // Without it a replica waits five seconds for others that might want the same snapshot.
        let options = options.line("repl-diskless-sync-delay 0");
        let certificates = options.group_certificates()?;
        let options = options.in_group(certificates.as_ref().map(|(_, files)| files));
        let master = Redis::start(options.clone()).await?;
        let follow = format!("replicaof 127.0.0.1 {}", master.peer_address().port());
        let others = Redis::start_many(replicas, options.clone().line(follow)).await?;
        wait_online(&master, replicas).await?;

        let files = certificates.as_ref().map(|(_, files)| files);
        let start = || Sentinel::start(master.peer_address(), down_after, &options, files);
        let sentinels = try_join_all((0..3).map(|_| start())).await?;
        let mut servers = vec![master];
        servers.extend(others);
        let group = Self { servers, sentinels, certificates };
        group.wait_acquainted(replicas).await?;
        Ok(group)
    }

    /// Where the sentinels listen.
    pub fn endpoints(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(|each| each.port.address()).collect()
    }

    /// Where the sentinels listen for TLS, if they do.
    pub fn tls_endpoints(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().filter_map(|each| Some(each.tls.as_ref()?.address())).collect()
    }

    /// The certificates for clients of sentinels and servers, if these have TLS. All show the same.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref().map(|(_, files)| files)
    }

    /// A sentinel, to pause or kill it.
    pub fn sentinel(&mut self, index: usize) -> &mut Process {
        &mut self.sentinels[index].process
    }

    /// The data servers, the first master first.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// A data server, to kill or restart it.
    pub fn server_mut(&mut self, index: usize) -> &mut Redis {
        &mut self.servers[index]
    }

    /// The index of the master as a majority of the sentinels see it; waits while they differ.
    ///
    /// # Errors
    ///
    /// [`KitError::TimedOut`].
    pub async fn master(&self) -> Result<usize> {
        until("the sentinels to agree on a master", READY_WITHIN, || async {
            let mut votes = vec![0; self.servers.len()];
            for sentinel in &self.sentinels {
                let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::MASTER];
                let answer = sentinel.cli(&ask).await?;
                let port = answer.lines().nth(1).and_then(|line| line.parse().ok());
                let index = port.and_then(|port: u16| {
                    self.servers.iter().position(|each| each.peer_address().port() == port)
                });
                if let Some(index) = index {
                    votes[index] += 1;
                }
            }
            Ok(votes.iter().position(|count| *count >= MAJORITY))
        })
        .await
    }

    /// Waits until a failover has made another server than `old` the master, and that server says
    /// so itself.
    ///
    /// # Errors
    ///
    /// [`KitError::TimedOut`].
    pub async fn failed_over(&self, old: usize) -> Result<usize> {
        until("a failover", READY_WITHIN, || async {
            let new = self.master().await?;
            if new == old {
                return Ok(None);
            }
            Ok((self.servers[new].info("role").await? == "master").then_some(new))
        })
        .await
    }

    async fn wait_acquainted(&self, replicas: usize) -> Result<()> {
        let wanted = [format!("slaves={replicas}"), format!("sentinels={}", self.sentinels.len())];
        until("the sentinels to find each other", READY_WITHIN, || async {
            for sentinel in &self.sentinels {
                let known = sentinel.cli(&["INFO", "sentinel"]).await?;
                if !wanted.iter().all(|each| known.contains(each)) {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    }
}

impl Sentinel {
    async fn start(
        master: SocketAddr,
        down_after: Duration,
        options: &RedisOptions,
        files: Option<&Certificates>,
    ) -> Result<Self> {
        ports::retry_taken(|| Self::try_start(master, down_after, options, files)).await
    }

    async fn try_start(
        master: SocketAddr,
        down_after: Duration,
        options: &RedisOptions,
        files: Option<&Certificates>,
    ) -> Result<Self> {
        let program = programs::find("redis-server", "redis-server")?;
        let port = Port::reserve()?;
        let folder = Process::folder_for(None)?;
        // The sentinel writes its state into this file.
        let config = folder.path().join("sentinel.conf");
        let name = Sentinels::MASTER;
        let mut text = format!(
            "bind 127.0.0.1\nport {}\ndir \"{}\"\n\
             sentinel monitor {name} 127.0.0.1 {} {MAJORITY}\n\
             sentinel down-after-milliseconds {name} {}\n\
             sentinel failover-timeout {name} 2000\n",
            port.number(),
            folder.path().display(),
            master.port(),
            down_after.as_millis(),
        );
        let tls = files.map(|_| Port::reserve()).transpose()?;
        if let (Some(port), Some(files)) = (&tls, files) {
            text += &options.tls_lines(port, files).join("\n");
            // With it a sentinel speaks TLS to servers and other sentinels.
            text += "\ntls-replication yes\n";
        }
        std::fs::write(&config, text).doing(|| format!("write {}", config.display()))?;
        let spec = Spec::new(format!("sentinel on port {}", port.number()), program)
            .args([config.as_os_str(), "--sentinel".as_ref()]);
        let mut process = Process::start(spec, folder)?;
        process.ready(|| answers(port.address())).await?;
        Ok(Self { process, port, tls })
    }

    async fn cli(&self, command: &[&str]) -> Result<String> {
        let mut cli = Command::new(programs::find("redis-cli", "redis-tools")?);
        cli.args(["-h", "127.0.0.1", "-p", &self.port.number().to_string()]).args(command);
        programs::run(cli).await.map_err(|error| match error {
            // Which of the three it was.
            KitError::Command { .. } => {
                KitError::Unexpected(format!("{}: {error}", self.process.name()))
            }
            other => other,
        })
    }
}

/// Waits until the master feeds this many replicas. That a replica calls its link up is too early:
/// the master may still withhold it the writes of the last moments.
pub(crate) async fn wait_online(master: &Redis, replicas: usize) -> Result<()> {
    until("replicas to come online", READY_WITHIN, || async {
        let known = master.cli(&["INFO", "replication"]).await?;
        Ok((known.matches("state=online").count() >= replicas).then_some(()))
    })
    .await
}
