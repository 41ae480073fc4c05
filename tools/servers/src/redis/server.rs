//! Redis servers.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use async_trait::async_trait;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    error::{Doing as _, Result},
    faults::clock_shim::Clock,
    machine::{
        ports::{self, Port},
        programs,
        tls::{Certificates, ClientCertificates},
    },
    process::{Process, Spec},
    server::{Server, options, process_and},
};

/// How to start a [`Redis`].
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    lines: Vec<String>,
    password: Option<String>,
    aof: bool,
    unix_socket: bool,
    tls: Option<ClientCertificates>,
    /// Those of a group; without them a server makes its own.
    certificates: Option<Certificates>,
    clock: Option<Clock>,
    program: Option<PathBuf>,
}

impl RedisOptions {
    /// One Redis without persistence, password or TLS.
    pub fn new() -> Self {
        Self::default()
    }

    options! { line:
        /// Adds a line of `redis.conf`, also an ACL: `user app on >secret ~app:* +@all`.
    }

    /// Adds a line that those given by [`line`](Self::line) win over.
    pub(super) fn default_line(mut self, line: impl Into<String>) -> Self {
        self.lines.insert(0, line.into());
        self
    }

    /// The default user's password (default: none).
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Keeps an append-only file, flushed each second, so that a restart finds the data (default:
    /// off).
    #[must_use]
    pub fn aof(mut self) -> Self {
        self.aof = true;
        self
    }

    /// Also listens on a unix socket (default: off).
    #[must_use]
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Another server than `redis-server`, such as a `valkey-server`, by its path.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    options! { tls:
        /// Also listens for TLS on a port of its own (default: off).
    }

    /// Those with TLS show the certificates of their group, and use it among themselves.
    pub(super) fn in_group(mut self, certificates: Option<&Certificates>) -> Self {
        if let Some(files) = certificates {
            self.certificates = Some(files.clone());
            self.lines.insert(0, "tls-replication yes".to_owned());
        }
        self
    }

    /// Certificates for a group of servers, if they are to have TLS; they last as long as the
    /// folder.
    pub(super) fn group_certificates(&self) -> Result<Option<(TempDir, Certificates)>> {
        if self.tls.is_none() {
            return Ok(None);
        }
        let folder = Process::folder_for(None)?;
        let files = Certificates::create(folder.path(), "client")?;
        Ok(Some((folder, files)))
    }

    /// Lines of a configuration for TLS on this port.
    pub(super) fn tls_lines(&self, port: &Port, files: &Certificates) -> Vec<String> {
        let asked = self.tls == Some(ClientCertificates::Required);
        vec![
            format!("tls-port {}", port.number()),
            format!("tls-ca-cert-file \"{}\"", files.ca.display()),
            format!("tls-cert-file \"{}\"", files.server_cert.display()),
            format!("tls-key-file \"{}\"", files.server_key.display()),
            format!("tls-auth-clients {}", if asked { "yes" } else { "no" }),
        ]
    }

    options! { clock }
}

/// A running Redis server.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: Port,
    tls: Option<(Port, Certificates)>,
    options: RedisOptions,
}

impl Redis {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`KitError`](crate::KitError), with the end of the server's log where it has one.
    pub async fn start(options: RedisOptions) -> Result<Self> {
        ports::retry_taken(|| Self::try_start(options.clone())).await
    }

    /// Starts several at once, which know nothing of each other; Redlock takes five.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_many(count: usize, options: RedisOptions) -> Result<Vec<Self>> {
        futures_util::future::try_join_all((0..count).map(|_| Self::start(options.clone()))).await
    }

    async fn try_start(options: RedisOptions) -> Result<Self> {
        let program = match &options.program {
            Some(program) => program.clone(),
            None => programs::find("redis-server", "redis-server")?,
        };
        let port = Port::reserve()?;
        let folder = Process::folder_for(None)?;
        let tls = match (options.tls, &options.certificates) {
            (Some(_), Some(files)) => Some((Port::reserve()?, files.clone())),
            (Some(_), None) => {
                Some((Port::reserve()?, Certificates::create(folder.path(), "client")?))
            }
            (None, _) => None,
        };
        let config = folder.path().join("redis.conf");
        let text = config_text(folder.path(), &port, tls.as_ref(), &options);
        std::fs::write(&config, text).doing(|| format!("write {}", config.display()))?;
        create_data(folder.path())?;

        let spec = Spec::new(format!("redis on port {}", port.number()), program)
            .args([&config])
            .envs(options.clock.iter().flat_map(Clock::env));
        let process = Process::start(spec, folder)?;
        let mut redis = Self { process, port, tls, options };
        redis.ready().await?;
        Ok(redis)
    }

    /// Where clients connect with TLS, if it has that.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls.as_ref().map(|(port, _)| port.address())
    }

    /// Where others of its group reach it: with TLS if it has that.
    pub(super) fn peer_address(&self) -> SocketAddr {
        self.tls_address().unwrap_or_else(|| self.address())
    }

    /// The certificates for clients, if it has TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.tls.as_ref().map(|(_, certificates)| certificates)
    }

    /// The path of its unix socket, if it has one.
    pub fn socket(&self) -> Option<PathBuf> {
        self.options.unix_socket.then(|| socket_path(self.process.folder()))
    }

    /// The folder with its data: nothing, or `appendonlydir`.
    pub fn data(&self) -> PathBuf {
        data_path(self.process.folder())
    }

    /// Runs one command as the default user through `redis-cli`; returns its answer, without the
    /// last newline. An answer `ERR …` is text, too.
    ///
    /// # Errors
    ///
    /// [`KitError::Command`](crate::KitError::Command) if there is no connection.
    pub async fn cli(&self, command: &[&str]) -> Result<String> {
        let mut cli = Command::new(programs::find("redis-cli", "redis-tools")?);
        cli.args(["-h", "127.0.0.1", "-p", &self.port.number().to_string()]);
        if let Some(password) = &self.options.password {
            // Not as an argument, which any user of the machine can read.
            cli.env("REDISCLI_AUTH", password);
        }
        cli.args(command);
        Ok(programs::run(cli).await?.trim_end_matches('\n').to_owned())
    }

    /// One field of INFO, such as `run_id`.
    ///
    /// # Errors
    ///
    /// As [`cli`](Self::cli), or if there is no such field.
    pub async fn info(&self, field: &str) -> Result<String> {
        let all = self.cli(&["INFO", "everything"]).await?;
        let value =
            all.lines().find_map(|line| line.trim_end().strip_prefix(field)?.strip_prefix(':'));
        let missing = || crate::KitError::Unexpected(format!("INFO has no field {field}"));
        value.map(str::to_owned).ok_or_else(missing)
    }
}

#[async_trait]
impl Server for Redis {
    process_and! { port }

    async fn ready(&mut self) -> Result<()> {
        let address = self.port.address();
        self.process.ready(|| answers(address)).await
    }

    async fn lose_data(&mut self) -> Result<()> {
        std::fs::remove_dir_all(self.data()).doing(|| "remove Redis's data".to_owned())?;
        create_data(self.process.folder())
    }
}

fn data_path(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn socket_path(folder: &Path) -> PathBuf {
    folder.join("redis.sock")
}

fn create_data(folder: &Path) -> Result<()> {
    let data = data_path(folder);
    std::fs::create_dir(&data).doing(|| format!("create {}", data.display()))
}

fn config_text(
    folder: &Path,
    port: &Port,
    tls: Option<&(Port, Certificates)>,
    options: &RedisOptions,
) -> String {
    let mut lines = vec![
        "bind 127.0.0.1".to_owned(),
        format!("port {}", port.number()),
        format!("dir \"{}\"", data_path(folder).display()),
        "save \"\"".to_owned(),
        format!("appendonly {}", if options.aof { "yes" } else { "no" }),
    ];
    lines.extend(options.password.iter().map(|password| format!("requirepass \"{password}\"")));
    if options.unix_socket {
        lines.push(format!("unixsocket \"{}\"", socket_path(folder).display()));
    }
    if let Some((port, files)) = tls {
        lines.extend(options.tls_lines(port, files));
    }
    // Last, so that they win.
    lines.extend(options.lines.iter().cloned());
    lines.join("\n") + "\n"
}

/// Whether a PING is answered at all: `-NOAUTH` will do, `-LOADING` will not.
pub(crate) async fn answers(address: SocketAddr) -> bool {
    let ping = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut answer = [0; 8];
        let read = stream.read(&mut answer).await?;
        std::io::Result::Ok(answer[..read].starts_with(b"+") || answer[..read].starts_with(b"-NO"))
    };
    ping.await.unwrap_or(false)
}
