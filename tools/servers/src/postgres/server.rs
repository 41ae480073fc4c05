//! PostgreSQL servers.

use std::{net::SocketAddr, path::Path, path::PathBuf, process::Command};

use async_trait::async_trait;
use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::OnceCell,
};

use crate::{
    error::{Doing as _, KitError, Result},
    faults::clock_shim::Clock,
    machine::{
        account::Account,
        ports::{self, Port},
        programs,
        tls::{Certificates, ClientCertificates},
        tree,
        wait::{READY_WITHIN, until},
    },
    process::{Process, Spec},
    server::{Server, options, process_and},
};

/// The superuser of a fresh server.
const USER: &str = "postgres";

/// How to start a [`Postgres`].
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    lines: Vec<String>,
    password: Option<String>,
    tls: Option<ClientCertificates>,
    clock: Option<Clock>,
}

impl PostgresOptions {
    /// A server with user and database `postgres`, no password, no TLS, and `fsync = off`: what the
    /// kernel has survives the death of the server, and machines are not lost in tests. A benchmark
    /// sets `fsync = on` by [`line`](Self::line).
    pub fn new() -> Self {
        Self::default()
    }

    options! { line:
        /// Adds a line of `postgresql.conf`.
    }

    /// Asks all clients for a password (SCRAM); this is the superuser's (default: none asked).
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    options! { tls:
        /// Also takes TLS, on the same port (default: off). With required certificates, a TLS
        /// client is the user named by its certificate.
    }

    options! { clock }
}

/// A running PostgreSQL server, or a replica of one. Started by root it runs as `postgres`, or else
/// as `nobody`. Servers of one process have the same system identifier, except those with a
/// password and those that lost their data: they start with copies of the same empty data. To
/// leasehold two of them may be one store, so a test that needs two stores starts one of them with
/// a password.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    port: Port,
    certificates: Option<Certificates>,
    account: Option<Account>,
    options: PostgresOptions,
}

impl Postgres {
    /// Makes a data folder, starts a server on it and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`KitError`], with the end of the server's log where it has one.
    pub async fn start(options: PostgresOptions) -> Result<Self> {
        ports::retry_taken(|| Self::try_start(options.clone(), None)).await
    }

    /// Starts a streaming replica of this server, and waits until the server feeds it. It starts
    /// with this server's options, and is promoted by [`promote`](Self::promote).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn replica(&self) -> Result<Self> {
        let replica =
            ports::retry_taken(|| Self::try_start(self.options.clone(), Some(self))).await?;
        until("the replica to be fed", READY_WITHIN, || async {
            let fed = self.sql("SELECT state FROM pg_stat_replication").await?;
            Ok(fed.lines().any(|state| state == "streaming").then_some(()))
        })
        .await?;
        Ok(replica)
    }

    /// Makes a replica a server of its own; returns when it takes writes. Whether the old one lives
    /// on is the caller's affair.
    ///
    /// # Errors
    ///
    /// [`KitError::Command`] if this is no replica, [`KitError::Unexpected`] if it does not get
    /// ready.
    pub async fn promote(&self) -> Result<()> {
        match self.sql("SELECT pg_promote(true, 60)").await?.as_str() {
            "t" => Ok(()),
            other => Err(KitError::Unexpected(format!("pg_promote answered {other:?}"))),
        }
    }

    async fn try_start(options: PostgresOptions, primary: Option<&Self>) -> Result<Self> {
        let program = programs::find_postgres("postgres")?;
        let account = Account::instead_of_root("PostgreSQL", &["postgres", "nobody"])?;
        let port = Port::reserve()?;
        let folder = Process::folder_for(account.as_ref())?;
        let certificates = match options.tls {
            Some(_) => Some(Certificates::create(folder.path(), USER)?),
            None => None,
        };
        if let (Some(certificates), Some(account)) = (&certificates, &account) {
            certificates.give_key(account)?;
        }
        let data = data_path(folder.path());
        let config = folder.path().join("postgresql.conf");
        let text = config_text(&port, certificates.as_ref(), &options);
        std::fs::write(&config, text).doing(|| format!("write {}", config.display()))?;
        let hba = folder.path().join("pg_hba.conf");
        std::fs::write(&hba, hba_text(&options)).doing(|| format!("write {}", hba.display()))?;
        crate::machine::session::readable_by_all(&config, 0o644)?;
        crate::machine::session::readable_by_all(&hba, 0o644)?;
        match primary {
            Some(primary) => copy(primary, folder.path(), account.as_ref()).await?,
            None if options.password.is_none() => {
                copy_empty(folder.path(), account.as_ref()).await?
            }
            None => init(folder.path(), account.as_ref(), options.password.as_deref()).await?,
        }

        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let spec = Spec::new(format!("postgres on port {}", port.number()), program)
            .args(["-D".as_ref(), data.as_os_str()])
            .args([flag("config_file", &config), flag("hba_file", &hba)])
            .envs(options.clock.iter().flat_map(Clock::env))
            .account(account.clone());
        let process = Process::start(spec, folder)?;
        let mut postgres = Self { process, port, certificates, account, options };
        postgres.ready().await?;
        Ok(postgres)
    }

    /// The certificates for clients, if it has TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Runs SQL as the superuser in database `postgres` by `psql`; returns the rows as unaligned
    /// text without headings, and without the last newline.
    ///
    /// # Errors
    ///
    /// [`KitError::Command`] with what `psql` says.
    pub async fn sql(&self, sql: &str) -> Result<String> {
        let port = self.port.number().to_string();
        let mut psql = Command::new(programs::find_postgres("psql")?);
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"])
            .args(["-h", "127.0.0.1", "-p", &port, "-U", USER, "-d", "postgres", "-c", sql])
            // The environment of the tests must not set our server.
            .env("PGSSLMODE", "disable")
            .env("PGPASSFILE", "/dev/null");
        if let Some(password) = &self.options.password {
            psql.env("PGPASSWORD", password);
        }
        Ok(programs::run(psql).await?.trim_end_matches('\n').to_owned())
    }

    /// Kills (SIGKILL) the server process of one session, by its `pg_backend_pid()`. The postmaster
    /// then ends all sessions and goes through crash recovery without a new start; returns when it
    /// has, and takes connections again.
    ///
    /// # Errors
    ///
    /// [`KitError::Unexpected`] if that is no process of this server, [`KitError::TimedOut`] if it
    /// does not recover.
    pub async fn kill_backend(&self, pid: u32) -> Result<()> {
        let mut workers = self.process.tree()?;
        let postmaster = workers.remove(0);
        if !workers.contains(&pid) {
            return Err(KitError::Unexpected(format!("{pid} is no session of this server")));
        }
        tree::signal(pid, Signal::KILL)?;
        let address = self.port.address();
        // It takes connections for a moment before it notices; the others' end shows that it has.
        until(&format!("postmaster {postmaster} to recover"), READY_WITHIN, || {
            let reset = !workers.iter().any(|worker| tree::is_alive(*worker));
            async move { Ok((reset && answers(address).await).then_some(())) }
        })
        .await
    }

    /// Shuts it down in order (a fast shutdown: sessions end, a checkpoint is written) and starts
    /// it again, with its data.
    ///
    /// # Errors
    ///
    /// As [`Process::stop`] and [`Server::restart`].
    pub async fn restart_cleanly(&mut self) -> Result<()> {
        self.process.stop(Signal::INT).await?;
        self.process.start_again()?;
        self.ready().await
    }

    /// Every PostgreSQL has a small System V memory segment, of which the kernel keeps some
    /// thousands; one that was killed leaves its own. It is named in the server's lock file.
    fn remove_segment(&self) {
        let lock_file = data_path(self.process.folder()).join("postmaster.pid");
        let Ok(text) = std::fs::read_to_string(lock_file) else { return };
        let id = text.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
        if let (Some(id), Ok(ipcrm)) = (id, programs::find("ipcrm", "util-linux")) {
            // A segment that is gone already is no error.
            let _ = Command::new(ipcrm).args(["-m", id]).output();
        }
    }
}

#[async_trait]
impl Server for Postgres {
    process_and! { port }

    async fn ready(&mut self) -> Result<()> {
        let address = self.port.address();
        self.process.ready(|| answers(address)).await
    }

    async fn lose_data(&mut self) -> Result<()> {
        self.remove_segment();
        let folder = self.process.folder();
        std::fs::remove_dir_all(data_path(folder))
            .doing(|| "remove PostgreSQL's data".to_owned())?;
        init(folder, self.account.as_ref(), self.options.password.as_deref()).await
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.process.kill();
        self.remove_segment();
    }
}

fn data_path(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// Empty data, made once in a process: a server gets a copy, which takes a tenth of the time.
static EMPTY: OnceCell<PathBuf> = OnceCell::const_new();

async fn copy_empty(folder: &Path, account: Option<&Account>) -> Result<()> {
    let empty = EMPTY.get_or_try_init(|| make_empty(account)).await?;
    let mut copy = Account::command(account, programs::find("cp", "coreutils")?);
    copy.arg("-r").arg(empty).arg(data_path(folder));
    programs::run(copy).await.map(drop)
}

/// Makes empty data in the folder of this process, which goes when the process has ended.
async fn make_empty(account: Option<&Account>) -> Result<PathBuf> {
    let folder = Process::folder_for(account)?.keep();
    init(&folder, account, None).await?;
    Ok(data_path(&folder))
}

async fn init(folder: &Path, account: Option<&Account>, password: Option<&str>) -> Result<()> {
    let mut initdb = Account::command(account, programs::find_postgres("initdb")?);
    initdb.current_dir(folder).arg("-D").arg(data_path(folder)).args([
        "-U",
        USER,
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
    ]);
    if let Some(password) = password {
        let file = folder.join("password");
        std::fs::write(&file, password).doing(|| format!("write {}", file.display()))?;
        crate::machine::session::readable_by_all(&file, 0o600)?;
        account.map_or(Ok(()), |account| account.give(&file))?;
        initdb.arg("--pwfile").arg(&file);
    }
    programs::run(initdb).await.map(drop)
}

/// Takes a copy of a running server's data, with the settings of a replica in it.
async fn copy(primary: &Postgres, folder: &Path, account: Option<&Account>) -> Result<()> {
    let port = primary.port.number().to_string();
    let mut copy = Account::command(account, programs::find_postgres("pg_basebackup")?);
    copy.current_dir(folder).arg("-D").arg(data_path(folder)).args([
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-U",
        USER,
        "--write-recovery-conf",
        "--checkpoint=fast",
        "--no-sync",
    ]);
    if let Some(password) = &primary.options.password {
        copy.env("PGPASSWORD", password);
    }
    programs::run(copy).await.map(drop)
}

fn config_text(
    port: &Port,
    certificates: Option<&Certificates>,
    options: &PostgresOptions,
) -> String {
    let mut lines = vec![
        "listen_addresses = '127.0.0.1'".to_owned(),
        format!("port = {}", port.number()),
        // A socket's path may be too long for the kernel under a deep TMPDIR.
        "unix_socket_directories = ''".to_owned(),
        // Leaves nothing in /dev/shm when it is killed.
        "dynamic_shared_memory_type = mmap".to_owned(),
        "shared_buffers = 16MB".to_owned(),
        "fsync = off".to_owned(),
    ];
    if let Some(files) = certificates {
        lines.push("ssl = on".to_owned());
        lines.push(format!("ssl_ca_file = '{}'", files.ca.display()));
        lines.push(format!("ssl_cert_file = '{}'", files.server_cert.display()));
        lines.push(format!("ssl_key_file = '{}'", files.server_key.display()));
    }
    // Last, so that they win.
    lines.extend(options.lines.iter().cloned());
    lines.join("\n") + "\n"
}

fn hba_text(options: &PostgresOptions) -> String {
    let method = if options.password.is_some() { "scram-sha-256" } else { "trust" };
    let over_tls = match options.tls {
        Some(ClientCertificates::Required) => "cert",
        _ => method,
    };
    format!(
        "hostssl all,replication all 127.0.0.1/32 {over_tls}\n\
         hostnossl all,replication all 127.0.0.1/32 {method}\n"
    )
}

/// Whether a session can be begun: any answer to our greeting will do but "cannot connect now"
/// (57P03), which a server gives while it starts or recovers.
async fn answers(address: SocketAddr) -> bool {
    let greet = async {
        let mut stream = TcpStream::connect(address).await?;
        let parameters = b"user\0postgres\0database\0postgres\0\0";
        let mut message = (8 + parameters.len() as u32).to_be_bytes().to_vec();
        message.extend(196_608_u32.to_be_bytes()); // protocol 3.0
        message.extend(parameters);
        stream.write_all(&message).await?;
        let mut answer = [0; 256];
        let read = stream.read(&mut answer).await?;
        let answer = &answer[..read];
        let not_yet = answer.windows(5).any(|code| code == b"57P03");
        // 'X' ends the session.
        stream.write_all(&[b'X', 0, 0, 0, 4]).await?;
        std::io::Result::Ok(!answer.is_empty() && !not_yet)
    };
    greet.await.unwrap_or(false)
}
