//! The socket of a connection: TCP, TLS or Unix.

use std::{
    future::{Future, ready},
    io,
    pin::pin,
    sync::{Arc, atomic::Ordering},
};

use futures_util::future::select_ok;
use lock_core::ConnectionSecurity;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, RedisConnectionInfo, RedisError, Value,
    aio::MultiplexedConnection,
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};

use crate::{
    connection::{
        bounded::{Bounded, Progress},
        pipeline::Pipeline,
        tls,
    },
    settings::{Address, Settings},
    sys,
};

/// A connection and its driver. If the redis crate made the stream, it would also run the driver,
/// and use the process's default provider of cryptography. So we make every stream.
pub(crate) struct Socket {
    commands: MultiplexedConnection,
    driver: Pipeline,
    progress: Arc<Progress>,
}

impl Socket {
    /// Connects to this address. The caller limits the time.
    pub(crate) async fn open(
        settings: &Settings,
        address: &Address,
        login: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<Self, RedisError> {
        let has_password = login.password().is_some_and(|password| !password.is_empty());
        if has_password && !settings.plaintext && address.security() == ConnectionSecurity::Plain {
            // Another server named this one. The servers of the URL were checked before.
            let message = "a password must not go to another machine without TLS; use TLS, or plaintext=on in the URL";
            return Err(RedisError::from((ErrorKind::InvalidClientConfig, message)));
        }
        match address {
            Address::Tcp(host, port) => {
                let stream = connect(host, *port, |stream| ready(Ok(stream))).await?;
                Self::over(stream, login, config).await
            }
            Address::Tls(host, port) => {
                let tls = tls::connector(settings)?;
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let stream = connect(host, *port, |stream| tls.connect(name.clone(), stream));
                Self::over(stream.await?, login, config).await
            }
            Address::Unix(path) => {
                Self::over(sys::connect_socket(path).await?, login, config).await
            }
        }
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        login: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<Self, RedisError> {
        let (stream, progress) = Bounded::new(stream);
        let (commands, driver) =
            MultiplexedConnection::new_with_config(login, stream, config).await?;
        progress.logged_in.store(true, Ordering::Relaxed);
        Ok(Self { commands, driver: Pipeline::spawn(driver), progress })
    }

    /// How many bytes have come from the server.
    pub(crate) fn received(&self) -> u64 {
        self.progress.received.load(Ordering::Relaxed)
    }

    /// Ends the connection. Each call that waits for an answer gets an error.
    pub(crate) fn end(&self) {
        self.driver.end();
    }

    /// A handle for subscriptions. It works only as long as this connection lives.
    pub(crate) fn subscriber(&self) -> MultiplexedConnection {
        self.commands.clone()
    }

    /// Sends a command and returns the answer.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut commands = self.commands.clone();
        self.driver.call(pin!(commands.send_packed_command(command))).await
    }

    /// Sends these commands and returns the answers.
    pub(crate) async fn send_all(
        &self,
        pipeline: &redis::Pipeline,
    ) -> Result<Vec<Value>, RedisError> {
        let mut commands = self.commands.clone();
        commands.send_packed_commands(pipeline, 0, pipeline.len()).await
    }
}

/// Connects to the first address of the host that answers and for which `begin` succeeds.
async fn connect<S, F: Future<Output = io::Result<S>>>(
    host: &str,
    port: u16,
    begin: impl Fn(TcpStream) -> F,
) -> Result<S, RedisError> {
    let addresses = lookup_host((host, port)).await?;
    let attempt = async |address| {
        let stream = TcpStream::connect(address).await?;
        // Each write is one whole command or more, and a caller waits for the answer.
        stream.set_nodelay(true)?;
        begin(stream).await
    };
    let attempts: Vec<_> = addresses.map(|address| Box::pin(attempt(address))).collect();
    if attempts.is_empty() {
        return Err(io::Error::other("the host has no address").into());
    }
    Ok(select_ok(attempts).await?.0)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        time::Duration,
    };

    use futures_util::poll;
    use redis::{ProtocolVersion, PushKind};
    use servers::{ClientCertificates, Redis, RedisOptions, Server as _};
    use tokio::sync::mpsc;

    use super::*;
    use crate::{builder::RedisBuilder, settings::Topology};

    const SOON: Duration = Duration::from_secs(30);

    async fn server() -> Redis {
        let options = RedisOptions::new().unix_socket().tls(ClientCertificates::Required);
        Redis::start(options).await.unwrap()
    }

    /// The store on each kind of connection.
    fn ways(server: &Redis) -> [Settings; 3] {
        let files = server.certificates().unwrap();
        let read = |path| std::fs::read(path).unwrap();
        let encrypted = server.tls_address().unwrap();
        [
            RedisBuilder::tcp("127.0.0.1", server.address().port()),
            RedisBuilder::unix(server.socket().unwrap()),
            RedisBuilder::tls("127.0.0.1", encrypted.port())
                .roots(read(&files.ca))
                .certificate(read(&files.client_cert), read(&files.client_key)),
        ]
        .map(|builder| builder.settings)
    }

    async fn open(settings: &Settings, config: AsyncConnectionConfig) -> Socket {
        let Topology::Single(address) = &settings.topology else {
            panic!("{:?}", settings.topology)
        };
        let by = tokio::time::Instant::now() + SOON;
        let login = settings.login(ProtocolVersion::RESP3, by).await.unwrap();
        Socket::open(settings, address, &login, config).await.unwrap()
    }

    #[tokio::test]
    async fn a_call_is_on_its_way_before_it_waits() {
        let server = server().await;
        for settings in ways(&server) {
            let connection = open(&settings, AsyncConnectionConfig::new()).await;
            let mut tell = redis::cmd("RPUSH");
            let mut telling = pin!(connection.send(tell.arg("list").arg("told")));
            assert!(poll!(&mut telling).is_pending());
            // No task of this runtime runs before the server has received the command.
            let mut other = std::net::TcpStream::connect(server.address()).unwrap();
            other.set_read_timeout(Some(SOON)).unwrap();
            other.write_all(b"BLPOP list 5\r\n").unwrap();
            let mut heard = String::new();
            BufReader::new(other).read_line(&mut heard).unwrap();
            assert_eq!(heard, "*2\r\n", "nothing was written: {:?}", settings.topology);
            assert_eq!(telling.await.unwrap(), Value::Int(1));
        }
    }

    /// With TLS a server announces the end (`close_notify`). A server that is killed does not.
    #[tokio::test]
    async fn the_end_of_a_connection_is_noticed_however_it_comes() {
        for killed in [false, true] {
            for way in 0..3 {
                let mut server = server().await;
                let (ended, mut told) = mpsc::unbounded_channel();
                let config = AsyncConnectionConfig::new().set_push_sender(ended);
                let connection = open(&ways(&server)[way], config).await;
                connection.send(&redis::cmd("PING")).await.unwrap();
                if killed {
                    server.kill().unwrap();
                } else {
                    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
                }
                let push = tokio::time::timeout(SOON, told.recv()).await.unwrap().unwrap();
                assert_eq!(push.kind, PushKind::Disconnection, "{push:?}");
                let error = connection.send(&redis::cmd("PING")).await.unwrap_err();
                assert!(error.is_io_error() && error.is_unrecoverable_error(), "{error}");
            }
        }
    }
}
