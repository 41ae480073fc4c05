//! pgbouncer, a pooler between clients and a PostgreSQL server.

use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::net::TcpStream;

use crate::{
    error::{Doing as _, Result},
    machine::{
        account::Account,
        ports::{self, Port},
        programs,
    },
    postgres::server::Postgres,
    process::{Process, Spec},
    server::{Server, process_and},
};

/// A running pgbouncer in transaction mode: each transaction of a client may come to another
/// session of the server. Everybody is the superuser, without a password.
#[derive(Debug)]
pub struct Pgbouncer {
    process: Process,
    port: Port,
}

impl Pgbouncer {
    /// Starts one with at most `sessions` sessions of `postgres`, and waits until it listens.
    ///
    /// # Errors
    ///
    /// [`KitError`](crate::KitError), with the end of its log where it has one.
    pub async fn start(postgres: &Postgres, sessions: usize) -> Result<Self> {
        ports::retry_taken(|| Self::try_start(postgres, sessions)).await
    }

    async fn try_start(postgres: &Postgres, sessions: usize) -> Result<Self> {
        let program = programs::find("pgbouncer", "pgbouncer")?;
        let account = Account::instead_of_root("pgbouncer", &["postgres", "nobody"])?;
        let port = Port::reserve()?;
        let folder = Process::folder_for(account.as_ref())?;
        let config = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n\
             postgres = host=127.0.0.1 port={} dbname=postgres user=postgres\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {}\n\
             unix_socket_dir =\n\
             auth_type = any\n\
             pool_mode = transaction\n\
             default_pool_size = {sessions}\n\
             ignore_startup_parameters = extra_float_digits\n",
            postgres.address().port(),
            port.number(),
        );
        std::fs::write(&config, text).doing(|| format!("write {}", config.display()))?;
        crate::machine::session::readable_by_all(&config, 0o644)?;
        let spec = Spec::new(format!("pgbouncer on port {}", port.number()), program)
            .args([&config])
            .account(account);
        let process = Process::start(spec, folder)?;
        let mut pgbouncer = Self { process, port };
        pgbouncer.ready().await?;
        Ok(pgbouncer)
    }
}

#[async_trait]
impl Server for Pgbouncer {
    process_and! { port }

    async fn ready(&mut self) -> Result<()> {
        let address = self.port.address();
        self.process.ready(|| async move { TcpStream::connect(address).await.is_ok() }).await
    }
}
