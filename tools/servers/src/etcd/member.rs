//! One member of an etcd cluster.

use std::{
    hash::{BuildHasher as _, RandomState},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::EtcdOptions;
use crate::{
    error::{Doing as _, KitError, Result},
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

/// A member of an etcd cluster.
#[derive(Debug)]
pub struct Member {
    process: Process,
    client: Port,
    /// Serves `/health` and `/metrics` in plain HTTP, whatever the clients' port does.
    metrics: Port,
    _peer: Port,
    peer_proxy: Option<Proxy>,
    certificates: Option<Certificates>,
    identity: Vec<String>,
    is_alone: bool,
}

/// Starts members that form a new cluster; they are not yet ready.
pub(super) async fn start(count: usize, options: &EtcdOptions) -> Result<Vec<Member>> {
    let program = programs::find("etcd", "etcd-server")?;
    let reserve = || Ok([Port::reserve()?, Port::reserve()?, Port::reserve()?]);
    let ports: Vec<[Port; 3]> = (0..count).map(|_| reserve()).collect::<Result<_>>()?;
    let (mut urls, mut peers) = (Vec::new(), Vec::new());
    for ([peer, ..], index) in ports.iter().zip(0..) {
        let proxy = match options.peers_by_proxy {
            true => Some(Proxy::start(peer.address()).await?),
            false => None,
        };
        let address = proxy.as_ref().map_or(peer.address(), Proxy::address);
        urls.push(format!("m{index}=http://{address}"));
        peers.push((format!("http://{address}"), proxy));
    }
    // Members of another test's cluster that once had our ports are thus told apart.
    let token = format!("kit-{:016x}", RandomState::new().hash_one(std::process::id()));

    let mut members = Vec::new();
    for (([peer, client, metrics], (peer_url, peer_proxy)), index) in
        ports.into_iter().zip(peers).zip(0..)
    {
        let folder = Process::folder_for(None)?;
        let certificates = match options.tls {
            Some(_) if index == 0 => Some(Certificates::create(folder.path(), "root")?),
            Some(_) => members.first().and_then(|first: &Member| first.certificates.clone()),
            None => None,
        };
        let identity = vec![
            format!("--name=m{index}"),
            format!("--initial-cluster={}", urls.join(",")),
            format!("--initial-cluster-token={token}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
        ];
        let client_url = client_url(&client, certificates.is_some());
        let data = data_path(folder.path());
        let mut flags = identity.clone();
        flags.extend([
            format!("--data-dir={}", data.display()),
            format!("--listen-peer-urls=http://{}", peer.address()),
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-metrics-urls=http://{}", metrics.address()),
            "--initial-cluster-state=new".to_owned(),
            "--heartbeat-interval=20".to_owned(),
            "--election-timeout=200".to_owned(),
            "--logger=zap".to_owned(),
        ]);
        flags.extend(options.quota_bytes.map(|bytes| format!("--quota-backend-bytes={bytes}")));
        if let Some(files) = &certificates {
            flags.push(format!("--cert-file={}", files.server_cert.display()));
            flags.push(format!("--key-file={}", files.server_key.display()));
            flags.push(format!("--trusted-ca-file={}", files.ca.display()));
            let asked = options.tls == Some(ClientCertificates::Required);
            flags.push(format!("--client-cert-auth={asked}"));
        }
        // Last, so that they win.
        flags.extend(options.flags.iter().cloned());

        let spec = Spec::new(format!("etcd member m{index} on port {}", client.number()), &program)
            .args(flags)
            // etcd 3.4 starts on these only when told that this is known.
            .env("ETCD_UNSUPPORTED_ARCH", go_arch());
        let process = Process::start(spec, folder)?;
        let is_alone = count == 1;
        members.push(Member {
            process,
            client,
            metrics,
            _peer: peer,
            peer_proxy,
            certificates,
            identity,
            is_alone,
        });
    }
    Ok(members)
}

fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "arm64",
        "x86" => "386",
        _ => "",
    }
}

fn data_path(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn client_url(port: &Port, is_tls: bool) -> String {
    format!("{}://{}", if is_tls { "https" } else { "http" }, port.address())
}

impl Member {
    /// The URL for clients.
    pub fn client_url(&self) -> String {
        client_url(&self.client, self.certificates.is_some())
    }

    /// The proxy by which the other members reach it, of [`EtcdOptions::peers_by_proxy`].
    pub fn peer_proxy(&self) -> Option<&Proxy> {
        self.peer_proxy.as_ref()
    }

    pub(super) fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// The flags that name the member and its cluster.
    pub(super) fn identity(&self) -> &[String] {
        &self.identity
    }

    /// The folder with its data.
    pub fn data(&self) -> PathBuf {
        data_path(self.process.folder())
    }

    /// The file of its key-value store; its log is in others.
    pub fn database(&self) -> PathBuf {
        self.data().join("member/snap/db")
    }

    /// Waits until it serves reads that need a majority.
    ///
    /// # Errors
    ///
    /// As [`Process::ready`].
    pub async fn wait_healthy(&mut self) -> Result<()> {
        let metrics = self.metrics.address();
        self.process
            .ready(|| async move {
                get(metrics, "/health").await.is_ok_and(|body| body.contains("\"true\""))
            })
            .await
    }

    /// Its metrics, in Prometheus's text format.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`] if it does not answer.
    pub async fn metrics(&self) -> Result<String> {
        get(self.metrics.address(), "/metrics").await.doing(|| "read etcd's metrics".to_owned())
    }

    /// One metric without labels, such as `etcd_debugging_mvcc_watcher_total`.
    ///
    /// # Errors
    ///
    /// [`KitError::Unexpected`] if there is none of that name.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let all = self.metrics().await?;
        let value = all.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.ok_or_else(|| KitError::Unexpected(format!("etcd has no metric {name}")))
    }

    pub(super) async fn is_leader(&self) -> bool {
        self.process.pid().is_ok()
            && self.metric("etcd_server_is_leader").await.is_ok_and(|value| value == 1.0)
    }
}

#[async_trait]
impl Server for Member {
    process_and! { client }

    /// Only one that is alone may: it begins anew under the same cluster id, which etcd derives
    /// from its flags. In a cluster the others would take it for a liar.
    fn may_lose_data(&self) -> Result<()> {
        let why = "a member that lost its data has to be removed and added as a new one";
        if self.is_alone { Ok(()) } else { Err(KitError::Unexpected(why.to_owned())) }
    }

    async fn lose_data(&mut self) -> Result<()> {
        let folder = self.data();
        std::fs::remove_dir_all(&folder).doing(|| format!("remove {}", folder.display()))
    }

    /// A member of several is only waited for until its process answers, since there may be no
    /// majority to be healthy with; [`Etcd::wait_healthy`](super::Etcd::wait_healthy) waits for
    /// more.
    async fn ready(&mut self) -> Result<()> {
        if self.is_alone {
            return self.wait_healthy().await;
        }
        let metrics = self.metrics.address();
        self.process.ready(|| async move { get(metrics, "/metrics").await.is_ok() }).await
    }
}

/// A plain HTTP request; the answer with its head.
async fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    tokio::time::timeout(ANSWER_WITHIN, exchange).await.map_err(std::io::Error::from)?
}
