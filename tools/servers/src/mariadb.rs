//! MariaDB servers.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use async_trait::async_trait;
use rustix::process::Signal;
use tokio::{io::AsyncReadExt as _, net::TcpStream, sync::OnceCell};

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

/// How to start a [`Mariadb`].
#[derive(Clone, Debug, Default)]
pub struct MariadbOptions {
    flags: Vec<String>,
    password: String,
    tls: Option<ClientCertificates>,
    clock: Option<Clock>,
}

impl MariadbOptions {
    /// A server with user `root`, no password, an empty database `test`, and MariaDB's own defaults
    /// for flushing.
    pub fn new() -> Self {
        Self::default()
    }

    options! { flag:
        /// Adds a flag of `mariadbd`, such as `--innodb-flush-log-at-trx-commit=2`.
    }

    /// The password of `root` (default: none).
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = password.into();
        self
    }

    options! { tls:
        /// Also takes TLS, on the same port (default: off). With required certificates, `root` has
        /// to show one over TLS or not.
    }

    options! { clock }
}

/// A running MariaDB server; no config file of the machine is read.
#[derive(Debug)]
pub struct Mariadb {
    process: Process,
    port: Port,
    certificates: Option<Certificates>,
    options: MariadbOptions,
}

impl Mariadb {
    /// Makes a data folder, starts a server on it and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`KitError`](crate::KitError), with the end of the server's log where it has one.
    pub async fn start(options: MariadbOptions) -> Result<Self> {
        ports::retry_taken(|| Self::try_start(options.clone())).await
    }

    async fn try_start(options: MariadbOptions) -> Result<Self> {
        let program = programs::find("mariadbd", "mariadb-server")?;
        let port = Port::reserve()?;
        let folder = Process::folder_for(None)?;
        let certificates = match options.tls {
            Some(_) => Some(Certificates::create(folder.path(), "client")?),
            None => None,
        };
        init(folder.path()).await?;
        let first_sql = folder.path().join("init.sql");
        std::fs::write(&first_sql, first_statements(&options))
            .doing(|| format!("write {}", first_sql.display()))?;

        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut flags = vec![
            "--no-defaults".to_owned(), // has to be the first
            flag("datadir", &data_path(folder.path())),
            flag("tmpdir", folder.path()),
            flag("init-file", &first_sql),
            flag("pid-file", &folder.path().join("mariadbd.pid")),
            // Relative, as an absolute path may be too long for the kernel under a deep TMPDIR.
            "--socket=mariadbd.sock".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--port={}", port.number()),
            "--skip-name-resolve".to_owned(),
            "--innodb-buffer-pool-size=16M".to_owned(),
            "--innodb-log-file-size=8M".to_owned(),
        ];
        flags.extend(as_root());
        if let Some(files) = &certificates {
            flags.push(flag("ssl-ca", &files.ca));
            flags.push(flag("ssl-cert", &files.server_cert));
            flags.push(flag("ssl-key", &files.server_key));
        }
        // Last, so that they win.
        flags.extend(options.flags.iter().cloned());

        let spec = Spec::new(format!("mariadb on port {}", port.number()), program)
            .args(flags)
            .envs(options.clock.iter().flat_map(Clock::env));
        let process = Process::start(spec, folder)?;
        let mut mariadb = Self { process, port, certificates, options };
        mariadb.ready().await?;
        Ok(mariadb)
    }

    /// The certificates for clients, if it has TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Runs SQL as `root` in database `test`; returns the rows, columns apart by tabs, without
    /// headings and without the last newline.
    ///
    /// # Errors
    ///
    /// [`KitError::Command`](crate::KitError::Command) with what the client says.
    pub async fn sql(&self, sql: &str) -> Result<String> {
        let mut client = Command::new(programs::find("mariadb", "mariadb-client")?);
        client
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=root"])
            .arg(format!("--port={}", self.port.number()))
            .args(["--skip-column-names", "--batch"]);
        if let Some(files) = &self.certificates {
            client
                .arg(format!("--ssl-ca={}", files.ca.display()))
                .arg(format!("--ssl-cert={}", files.client_cert.display()))
                .arg(format!("--ssl-key={}", files.client_key.display()));
        }
        client.arg("--execute").arg(sql).arg("test").env("MYSQL_PWD", &self.options.password);
        Ok(programs::run(client).await?.trim_end_matches('\n').to_owned())
    }

    /// Shuts it down in order and starts it again, with its data.
    ///
    /// # Errors
    ///
    /// As [`Process::stop`] and [`Server::restart`].
    pub async fn restart_cleanly(&mut self) -> Result<()> {
        self.process.stop(Signal::TERM).await?;
        self.process.start_again()?;
        self.ready().await
    }
}

#[async_trait]
impl Server for Mariadb {
    process_and! { port }

    async fn ready(&mut self) -> Result<()> {
        let address = self.port.address();
        self.process.ready(|| greets(address)).await
    }

    async fn lose_data(&mut self) -> Result<()> {
        let folder = self.process.folder();
        std::fs::remove_dir_all(data_path(folder)).doing(|| "remove MariaDB's data".to_owned())?;
        init(folder).await
    }
}

fn data_path(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// As root it wants to be told that this is meant.
fn as_root() -> Option<String> {
    rustix::process::geteuid().is_root().then(|| "--user=root".to_owned())
}

/// Empty data, made once in a process: a server gets a copy, which takes a tenth of the time.
static EMPTY: OnceCell<PathBuf> = OnceCell::const_new();

async fn init(folder: &Path) -> Result<()> {
    let empty = EMPTY.get_or_try_init(install).await?;
    let mut copy = Command::new(programs::find("cp", "coreutils")?);
    copy.arg("-r").arg(empty).arg(data_path(folder));
    programs::run(copy).await.map(drop)
}

/// Makes empty data in the folder of this process, which goes when the process has ended.
async fn install() -> Result<PathBuf> {
    let folder = Process::folder_for(None)?.keep();
    let mut install = Command::new(programs::find("mariadb-install-db", "mariadb-server")?);
    install
        .current_dir(&folder)
        .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
        .arg(format!("--datadir={}", data_path(&folder).display()))
        // In a shared one, two that run at once remove each other's temporary tables.
        .arg(format!("--tmpdir={}", folder.display()))
        .args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"])
        .args(as_root());
    programs::run(install).await?;
    Ok(data_path(&folder))
}

/// The server runs these before it takes connections, at each start: they may be repeated. Without
/// name resolution a client comes from `127.0.0.1`, not from `localhost`.
fn first_statements(options: &MariadbOptions) -> String {
    let password = options.password.replace('\\', "\\\\").replace('\'', "\\'");
    let require = match options.tls {
        Some(ClientCertificates::Required) => " REQUIRE X509",
        _ => "",
    };
    format!(
        "CREATE DATABASE IF NOT EXISTS test;\n\
         CREATE OR REPLACE USER root@'127.0.0.1' IDENTIFIED BY '{password}'{require};\n\
         GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
    )
}

/// Whether it greets a client, which it does first: a packet of the protocol's version 10.
async fn greets(address: SocketAddr) -> bool {
    let greeting = async {
        let mut stream = TcpStream::connect(address).await?;
        let mut packet = [0; 5];
        stream.read_exact(&mut packet).await?;
        std::io::Result::Ok(packet[4] == 10)
    };
    greeting.await.unwrap_or(false)
}
