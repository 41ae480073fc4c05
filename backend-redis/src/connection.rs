//! The connection that commands go on.

use std::pin::pin;

use futures_util::future::select_ok;
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, Value, aio::MultiplexedConnection,
};
use tokio::net::{TcpStream, UnixStream, lookup_host};

use crate::{driver::Driver, topology::Place};

/// A connection and, where the redis crate lets us make the stream, its driver. TLS is made there, and then the
/// crate runs the driver, too.
pub(crate) struct Connection {
    commands: MultiplexedConnection,
    driver: Option<Driver>,
}

impl Connection {
    /// To the place that the client was made for.
    pub(crate) async fn open(
        client: &Client,
        place: &Place,
        config: AsyncConnectionConfig,
    ) -> Result<Self, RedisError> {
        let login = client.get_connection_info().redis_settings();
        let (commands, driver) = match place {
            Place::Tcp(host, port) => {
                let stream = connect(host, *port).await?;
                let (commands, driver) =
                    MultiplexedConnection::new_with_config(login, stream, config).await?;
                (commands, Some(Driver::spawn(driver)))
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                let (commands, driver) =
                    MultiplexedConnection::new_with_config(login, stream, config).await?;
                (commands, Some(Driver::spawn(driver)))
            }
            Place::Tls(..) => {
                (client.get_multiplexed_async_connection_with_config(&config).await?, None)
            }
        };
        Ok(Self { commands, driver })
    }

    /// The same for subscriptions. It is of no use without this one.
    pub(crate) fn subscriber(&self) -> MultiplexedConnection {
        self.commands.clone()
    }

    /// The answer to a command.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut commands = self.commands.clone();
        let call = pin!(commands.send_packed_command(command));
        match &self.driver {
            Some(driver) => driver.call(call).await,
            None => call.await,
        }
    }

    /// The answer to the last of these commands.
    pub(crate) async fn send_all(&self, pipeline: &Pipeline) -> Result<Value, RedisError> {
        let mut commands = self.commands.clone();
        let answers = commands.send_packed_commands(pipeline, pipeline.len() - 1, 1);
        Ok(answers.await?.pop().unwrap_or(Value::Nil))
    }
}

/// To whichever of the host's addresses answers first.
async fn connect(host: &str, port: u16) -> Result<TcpStream, RedisError> {
    let addresses = lookup_host((host, port)).await?;
    let attempts: Vec<_> = addresses.map(|address| Box::pin(TcpStream::connect(address))).collect();
    if attempts.is_empty() {
        return Err(std::io::Error::other("the host has no address").into());
    }
    let (stream, _) = select_ok(attempts).await?;
    // What is written is one whole command or more, and somebody waits for the answer.
    stream.set_nodelay(true)?;
    Ok(stream)
}
