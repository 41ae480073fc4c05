//! One member of a ZooKeeper ensemble.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{ZooKeeperOptions, jars};
use crate::{
    error::{Doing as _, Result},
    faults::proxy::Proxy,
    machine::{
        ports::Port,
        programs,
        tls::{Certificates, ClientCertificates},
    },
    process::{Process, Spec},
    server::{Server, process_and},
};

/// A paused member does not answer; more than this is no answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Starts quickly and takes little memory. The files for `jps` are left out.
const JAVA_FLAGS: [&str; 4] =
    ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"];

const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// A member of a ZooKeeper ensemble, or a server that is alone.
#[derive(Debug)]
pub struct ZooKeeperMember {
    process: Process,
    client: Port,
    peer: Port,
    tls: Option<(Port, Certificates)>,
    _election: Port,
    links: Vec<Option<Proxy>>,
    is_alone: bool,
}

/// Starts members that form a new ensemble; they are not yet ready.
pub(super) async fn start(
    count: usize,
    options: &ZooKeeperOptions,
) -> Result<Vec<ZooKeeperMember>> {
    let java = programs::find("java", "default-jre-headless")?;
    let class_path = jars::class_path(options.jars.as_deref())?;
    let reserve = || Ok([Port::reserve()?, Port::reserve()?, Port::reserve()?]);
    let ports: Vec<[Port; 3]> = (0..count).map(|_| reserve()).collect::<Result<_>>()?;
    let quorum: Vec<_> = ports.iter().map(|[_, quorum, _]| quorum.address()).collect();
    let election: Vec<_> = ports.iter().map(|[.., election]| election.number()).collect();

    let mut members: Vec<ZooKeeperMember> = Vec::new();
    for (index, [client, quorum_port, election_port]) in ports.into_iter().enumerate() {
        let folder = Process::folder_for(None)?;
        let data = data_path(folder.path());
        let mut config = format!(
            "tickTime={}\ninitLimit=50\nsyncLimit=5\nmaxClientCnxns=0\nmaxSessionTimeout={}\n\
             preAllocSize=64\nadmin.enableServer=false\n4lw.commands.whitelist=*\n\
             clientPortAddress=127.0.0.1\nclientPort={}\ndataDir={}\n",
            options.tick.as_millis(),
            (options.tick * 200).as_millis(),
            client.number(),
            data.display(),
        );
        let mut links = Vec::new();
        for (to, quorum) in quorum.iter().enumerate().filter(|_| count > 1) {
            let proxy = match options.peers_by_proxy && to != index {
                true => Some(Proxy::start(*quorum).await?),
                false => None,
            };
            let port = proxy.as_ref().map_or(quorum.port(), |proxy| proxy.address().port());
            let _ = writeln!(config, "server.{}=127.0.0.1:{port}:{}", to + 1, election[to]);
            links.push(proxy);
        }
        let certificates = match (options.tls, members.first()) {
            (Some(_), None) => Some(Certificates::create(folder.path(), "client")?),
            (Some(_), Some(first)) => first.certificates().cloned(),
            (None, _) => None,
        };
        let tls =
            certificates.map(|files| Port::reserve().map(|port| (port, files))).transpose()?;
        if let Some((port, files)) = &tls {
            let asked = options.tls == Some(ClientCertificates::Required);
            config += &tls_lines(folder.path(), port, files, asked)?;
        }
        // Last, so that they win.
        config.extend(options.lines.iter().flat_map(|line| [line.as_str(), "\n"]));
        let file = folder.path().join("zoo.cfg");
        std::fs::create_dir_all(&data).doing(|| format!("create {}", data.display()))?;
        for (file, text) in [(&file, &config), (&data.join("myid"), &format!("{}\n", index + 1))] {
            std::fs::write(file, text).doing(|| format!("write {}", file.display()))?;
        }
        let mut spec = Spec::new(format!("ZooKeeper on port {}", client.number()), &java);
        if let Some((name, password)) = &options.sasl_user {
            let file = folder.path().join("jaas.conf");
            let text = format!(
                "Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required user_{name}=\"{password}\"; }};\n"
            );
            std::fs::write(&file, text).doing(|| format!("write {}", file.display()))?;
            spec = spec.args([
                format!("-Djava.security.auth.login.config={}", file.display()),
                "-Dzookeeper.authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
                    .to_owned(),
            ]);
        }
        let spec = spec.args(JAVA_FLAGS).args([
            OsStr::new("-cp"),
            &class_path,
            OsStr::new(MAIN),
            file.as_os_str(),
        ]);
        let process = Process::start(spec, folder)?;
        members.push(ZooKeeperMember {
            process,
            client,
            peer: quorum_port,
            tls,
            _election: election_port,
            links,
            is_alone: count == 1,
        });
    }
    Ok(members)
}

/// ZooKeeper reads a key and its certificate from one file, and has TLS only with Netty.
fn tls_lines(folder: &Path, port: &Port, files: &Certificates, asked: bool) -> Result<String> {
    let shown = folder.join("server.pem");
    let read =
        |file: &Path| std::fs::read_to_string(file).doing(|| format!("read {}", file.display()));
    let text = read(&files.server_key)? + &read(&files.server_cert)?;
    std::fs::write(&shown, text).doing(|| format!("write {}", shown.display()))?;
    Ok(format!(
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         secureClientPortAddress=127.0.0.1\nsecureClientPort={}\n\
         ssl.keyStore.type=PEM\nssl.keyStore.location={}\n\
         ssl.trustStore.type=PEM\nssl.trustStore.location={}\nssl.clientAuth={}\n",
        port.number(),
        shown.display(),
        files.ca.display(),
        if asked { "need" } else { "none" },
    ))
}

fn data_path(folder: &Path) -> PathBuf {
    folder.join("data")
}

impl ZooKeeperMember {
    pub(super) fn link(&self, to: usize) -> Option<&Proxy> {
        self.links.get(to)?.as_ref()
    }

    pub(super) fn tls_address(&self) -> Option<SocketAddr> {
        self.tls.as_ref().map(|(port, _)| port.address())
    }

    pub(super) fn certificates(&self) -> Option<&Certificates> {
        self.tls.as_ref().map(|(_, files)| files)
    }

    /// Its role: `leader`, `follower` or `standalone`. `None` if it does not serve.
    pub async fn mode(&self) -> Option<String> {
        self.process.pid().ok()?;
        mode_of(self.address()).await
    }

    /// Where followers connect while it leads.
    pub fn peer_address(&self) -> SocketAddr {
        self.peer.address()
    }

    /// Sends it a four-letter command, such as `mntr`, and returns the answer.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`](crate::KitError::Io) if it does not answer.
    pub async fn ask(&self, command: &str) -> Result<String> {
        ask(self.address(), command).await.doing(|| format!("ask ZooKeeper for {command}"))
    }

    /// Waits until it serves clients.
    ///
    /// # Errors
    ///
    /// As [`Process::ready`].
    pub async fn wait_serving(&mut self) -> Result<()> {
        let (address, tls) = (self.address(), self.tls_address());
        // It opens the port for TLS last.
        let serves = || async move {
            mode_of(address).await.is_some()
                && match tls {
                    Some(tls) => TcpStream::connect(tls).await.is_ok(),
                    None => true,
                }
        };
        self.process.ready(serves).await
    }

    fn copy(&self) -> PathBuf {
        self.process.folder().join("data.copy")
    }

    pub(super) fn save_data(&self) -> Result<()> {
        replace(&self.copy(), &data_path(self.process.folder()))
    }

    pub(super) fn restore_data(&self) -> Result<()> {
        replace(&data_path(self.process.folder()), &self.copy())
    }
}

/// Replaces a folder with a copy of another one.
fn replace(folder: &Path, with: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).doing(|| format!("remove {}", folder.display()))?;
    }
    let copied = Command::new(programs::find("cp", "coreutils")?)
        .arg("-a")
        .arg(with)
        .arg(folder)
        .status()
        .doing(|| format!("copy {}", with.display()))?;
    match copied.success() {
        true => Ok(()),
        false => {
            let why = format!("{} was not copied: {copied}", with.display());
            Err(crate::KitError::Unexpected(why))
        }
    }
}

#[async_trait]
impl Server for ZooKeeperMember {
    process_and! { client }

    async fn lose_data(&mut self) -> Result<()> {
        let data = data_path(self.process.folder()).join("version-2");
        std::fs::remove_dir_all(&data).doing(|| format!("remove {}", data.display()))
    }

    /// A member of several is only waited for until its process accepts connections, since there
    /// may be no majority; [`ZooKeeper::wait_healthy`](super::ZooKeeper::wait_healthy) waits for
    /// more.
    async fn ready(&mut self) -> Result<()> {
        if self.is_alone {
            return self.wait_serving().await;
        }
        let address = self.address();
        self.process.ready(|| async move { ask(address, "ruok").await.is_ok() }).await
    }
}

/// The role of a server that serves.
async fn mode_of(address: SocketAddr) -> Option<String> {
    let answer = ask(address, "srvr").await.ok()?;
    answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
}

/// Sends a four-letter command.
async fn ask(address: SocketAddr, command: &str) -> std::io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(command.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    tokio::time::timeout(ANSWER_WITHIN, exchange).await.map_err(std::io::Error::from)?
}
