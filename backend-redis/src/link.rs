//! One connection: it is made, told who the server is, and never reconnects by itself.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use lock_core::{Env as _, Error, ErrorKind, Instant, SystemEnv};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind as Driver, ProtocolVersion, PushInfo, PushKind,
    RedisError, Value, aio::MultiplexedConnection,
};
use tokio::task::AbortHandle;

use crate::{
    config::{Protocol, Settings},
    error,
    identity::{self, Identity},
    pushes::Pushes,
};

/// A grant never rests on a handshake older than this.
pub(crate) const CONFIRMED_WITHIN: Duration = Duration::from_secs(3);
/// How often the handshake is confirmed in the background.
pub(crate) const CONFIRM_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Link {
    connection: MultiplexedConnection,
    client: Client,
    resp3: bool,
    timeout: Duration,
    identity: Mutex<(Arc<Identity>, Instant)>,
    /// A command had no answer in time, or the connection ended: the next caller makes a new one.
    dead: Arc<AtomicBool>,
    pushes: Arc<Pushes>,
    subscribed: AtomicBool,
    /// Serialises subscribing; holds the second connection's task under RESP2.
    subscription: tokio::sync::Mutex<Option<AbortHandle>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("resp3", &self.resp3).finish_non_exhaustive()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(task) = self.subscription.get_mut().take() {
            task.abort();
        }
    }
}

impl Link {
    /// Connects and shakes hands.
    pub(crate) async fn open(settings: &Settings, pushes: Arc<Pushes>) -> Result<Self, Error> {
        let limit = settings.timeout;
        match tokio::time::timeout(limit, Self::connect(settings, pushes)).await {
            Ok(result) => result,
            Err(_) => {
                let shown = humantime::format_duration(limit);
                let message = format!("no connection to the server within {shown}");
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    async fn connect(settings: &Settings, pushes: Arc<Pushes>) -> Result<Self, Error> {
        let dead = Arc::new(AtomicBool::new(false));
        let opened = match settings.protocol {
            Some(Protocol::Resp2) => {
                Self::dial(settings, ProtocolVersion::RESP2, &dead, &pushes).await
            }
            Some(Protocol::Resp3) => {
                Self::dial(settings, ProtocolVersion::RESP3, &dead, &pushes).await
            }
            None => match Self::dial(settings, ProtocolVersion::RESP3, &dead, &pushes).await {
                Err(error) if knows_no_resp3(&error) => {
                    dead.store(false, Ordering::SeqCst);
                    Self::dial(settings, ProtocolVersion::RESP2, &dead, &pushes).await
                }
                other => other,
            },
        };
        let (client, connection, resp3) = opened.map_err(|error| error::of_connecting(&error))?;
        let link = Self {
            connection,
            client,
            resp3,
            timeout: settings.timeout,
            identity: Mutex::default(),
            dead,
            pushes,
            subscribed: AtomicBool::new(false),
            subscription: tokio::sync::Mutex::new(None),
        };
        link.confirm().await?;
        link.check_memory_policy(settings).await?;
        Ok(link)
    }

    async fn dial(
        settings: &Settings,
        version: ProtocolVersion,
        dead: &Arc<AtomicBool>,
        pushes: &Arc<Pushes>,
    ) -> Result<(Client, MultiplexedConnection, bool), RedisError> {
        let resp3 = version == ProtocolVersion::RESP3;
        let client = settings.client(version)?;
        // The driver's own limit of 500 ms would make late grants routine; ours is per command.
        let mut config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(settings.timeout));
        if resp3 {
            let (dead, pushes) = (Arc::clone(dead), Arc::clone(pushes));
            config = config.set_push_sender(move |push: PushInfo| -> Result<(), ()> {
                received(push, &dead, &pushes);
                Ok(())
            });
        }
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok((client, connection, resp3))
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    pub(crate) fn retire(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Who the server said it is, not longer ago than [`CONFIRMED_WITHIN`].
    pub(crate) async fn identity(&self) -> Result<Arc<Identity>, Error> {
        let (known, at) = self.known();
        if SystemEnv.now().since(at) < CONFIRMED_WITHIN {
            return Ok(known);
        }
        self.confirm().await
    }

    fn known(&self) -> (Arc<Identity>, Instant) {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the server who it is, on this connection.
    pub(crate) async fn confirm(&self) -> Result<Arc<Identity>, Error> {
        let before = SystemEnv.now();
        let (server, replication) =
            tokio::try_join!(self.info("server"), self.info("replication"))?;
        let identity = Arc::new(Identity::read(&(server + &replication))?);
        if identity.role != "master" {
            self.retire();
            let message = format!("the server is a {}; allowed is a master", identity.role);
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) =
            (Arc::clone(&identity), before);
        Ok(identity)
    }

    async fn check_memory_policy(&self, settings: &Settings) -> Result<(), Error> {
        let info = self.info("memory").await?;
        let policy = identity::field(&info, "maxmemory_policy").unwrap_or("noeviction");
        if policy == "noeviction" || settings.allow_eviction {
            return Ok(());
        }
        let message = format!(
            "the server's maxmemory-policy is {policy}, which may remove held locks; allowed is \
             noeviction, or any with allow_eviction=true"
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    async fn info(&self, section: &str) -> Result<String, Error> {
        let answer = self.send(redis::cmd("INFO").arg(section)).await?;
        match answer {
            Ok(value) => redis::from_redis_value(value)
                .map_err(|_| Error::new(ErrorKind::Config, "INFO was not answered with text")),
            Err(error) => Err(error::of_command(&error)),
        }
    }

    /// One command with the time limit of every command. The inner error is the server's answer.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Result<Value, RedisError>, Error> {
        let mut connection = self.connection.clone();
        let sent = connection.send_packed_command(command);
        match self.limited(sent).await? {
            Ok(value) => Ok(value.extract_error()),
            Err(error) => {
                if error.is_unrecoverable_error() || error.is_io_error() {
                    self.retire();
                }
                Ok(Err(error))
            }
        }
    }

    async fn limited<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::time::timeout(self.timeout, work).await.map_err(|_| {
            // Whatever hangs there, the next command tries another connection.
            self.retire();
            let shown = humantime::format_duration(self.timeout);
            Error::new(ErrorKind::OutcomeUnknown, format!("no answer within {shown}"))
        })
    }

    /// Makes sure that pushes arrive.
    pub(crate) async fn subscribe(self: &Arc<Self>) -> Result<(), Error> {
        if self.subscribed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut task = self.subscription.lock().await;
        if self.subscribed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let channel = self.pushes.channel();
        if self.resp3 {
            let mut connection = self.connection.clone();
            let done = self.limited(connection.subscribe(channel)).await?;
            done.map_err(|error| self.refused(&error))?;
        } else {
            let opening = async {
                let mut pubsub = self.client.get_async_pubsub().await?;
                pubsub.subscribe(channel).await?;
                Ok::<_, RedisError>(pubsub.into_on_message())
            };
            let mut messages =
                self.limited(opening).await?.map_err(|error| self.refused(&error))?;
            let (dead, pushes) = (Arc::clone(&self.dead), Arc::clone(&self.pushes));
            let listening = tokio::spawn(async move {
                while let Some(message) = messages.next().await {
                    pushes.deliver(message.get_payload_bytes());
                }
                // Subscribing anew belongs to a new connection, and the state must be read again.
                dead.store(true, Ordering::SeqCst);
                pushes.recheck_all();
            });
            *task = Some(listening.abort_handle());
        }
        self.subscribed.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn refused(&self, error: &RedisError) -> Error {
        if error.is_io_error() {
            self.retire();
        }
        error::of_connecting(error)
    }

    /// Drops the subscription if nobody waits.
    pub(crate) async fn unsubscribe_if_idle(&self) {
        if !self.subscribed.load(Ordering::SeqCst) {
            return;
        }
        let mut task = self.subscription.lock().await;
        // A place is entered before `subscribed` is read, so one of the two sees the other.
        self.subscribed.store(false, Ordering::SeqCst);
        if !self.pushes.is_empty() {
            self.subscribed.store(true, Ordering::SeqCst);
            return;
        }
        match task.take() {
            Some(task) => task.abort(),
            None if self.resp3 => {
                let mut connection = self.connection.clone();
                let leaving = connection.unsubscribe(self.pushes.channel());
                if !matches!(self.limited(leaving).await, Ok(Ok(()))) {
                    self.retire();
                }
            }
            None => {}
        }
    }
}

fn knows_no_resp3(error: &RedisError) -> bool {
    error.kind() == Driver::RESP3NotSupported
        || error.detail().is_some_and(|detail| detail.contains("unknown command"))
}

/// What the server sent of its own accord.
fn received(push: PushInfo, dead: &AtomicBool, pushes: &Pushes) {
    match push.kind {
        PushKind::Message => {
            if let Some(Value::BulkString(payload)) = push.data.get(1) {
                pushes.deliver(payload);
            }
        }
        PushKind::Disconnection => {
            dead.store(true, Ordering::SeqCst);
            pushes.recheck_all();
        }
        _ => {}
    }
}
