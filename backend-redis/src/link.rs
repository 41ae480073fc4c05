//! One connection: it is made, told who the server is, and never reconnects by itself.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::{Env as _, Error, ErrorKind, SystemEnv};
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, RedisError, Value};

use crate::{
    acks::Acks,
    connection::Connection,
    error,
    handshake::{Handshake, Last},
    identity::{self, Identity, Limits},
    pushes::Pushes,
    settings::Settings,
    subscription::{self, Listening, Way},
    topology::Place,
};

/// A grant never rests on a handshake older than this.
pub(crate) const CONFIRMED_WITHIN: Duration = Duration::from_secs(3);
/// How often the handshake is confirmed in the background.
pub(crate) const CONFIRM_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Link {
    pub(crate) place: Place,
    connection: Connection,
    timeout: Duration,
    handshake: Last,
    /// A command had no answer in time, or the connection ended: the next caller makes a new one.
    dead: Arc<AtomicBool>,
    /// Whether the server may be replaced by a replica, also when it has none now.
    fails_over: bool,
    /// The user may not ask CONFIG GET, and asks no more.
    refused_config: AtomicBool,
    pub(crate) listening: Listening,
    pub(crate) acks: Acks,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("dead", &self.dead).finish_non_exhaustive()
    }
}

impl Link {
    /// Connects and shakes hands.
    pub(crate) async fn open(
        settings: &Settings,
        place: &Place,
        pushes: Arc<Pushes>,
    ) -> Result<Self, Error> {
        let limit = settings.timeout;
        match tokio::time::timeout(limit, Self::connect(settings, place, pushes)).await {
            Ok(result) => result,
            Err(_) => {
                let shown = humantime::format_duration(limit);
                let message = format!("no connection to the server within {shown}");
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    async fn connect(
        settings: &Settings,
        place: &Place,
        pushes: Arc<Pushes>,
    ) -> Result<Self, Error> {
        let dead = Arc::new(AtomicBool::new(false));
        let connection = Self::dial(settings, place, &dead, &pushes).await;
        let connection = connection.map_err(|error| error::of_connecting(&error))?;
        let way = if settings.topology.is_cluster() {
            Way::Sharded(Box::new(settings.clone()), place.clone())
        } else {
            Way::Shared(connection.subscriber())
        };
        let timeout = settings.timeout;
        let link = Self {
            place: place.clone(),
            fails_over: settings.topology.fails_over(),
            refused_config: AtomicBool::new(false),
            acks: Acks::default(),
            listening: Listening::new(way, Arc::clone(&dead), pushes, timeout),
            connection,
            timeout,
            handshake: Last::default(),
            dead,
        };
        let told = link.confirm().await?;
        if told.identity.clustered && !settings.topology.is_cluster() {
            return Err(Error::new(ErrorKind::Config, error::PART_OF_A_CLUSTER));
        }
        // Another server has the node's address now. It would grant everything, and never say MOVED.
        if !told.identity.clustered && settings.topology.is_cluster() {
            return Err(Error::new(ErrorKind::Unavailable, error::NO_PART_OF_A_CLUSTER));
        }
        check_memory_policy(told.identity.evicting.as_deref(), settings)?;
        Ok(link)
    }

    async fn dial(
        settings: &Settings,
        place: &Place,
        dead: &Arc<AtomicBool>,
        pushes: &Arc<Pushes>,
    ) -> Result<Connection, RedisError> {
        let (dead, pushes) = (Arc::clone(dead), Arc::clone(pushes));
        // The driver's own limit of 500 ms would make late grants routine; ours is per command.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_push_sender(
            move |push: PushInfo| -> Result<(), ()> {
                subscription::received(push, &dead, &pushes);
                Ok(())
            },
        );
        let login = settings.login(ProtocolVersion::RESP3);
        Connection::open(settings, place, &login, config).await
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    pub(crate) fn retire(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Who the server said it is, not longer ago than [`CONFIRMED_WITHIN`].
    pub(crate) async fn handshake(&self) -> Result<Handshake, Error> {
        let known = self.handshake.get();
        if SystemEnv.now().since(known.asked) < CONFIRMED_WITHIN {
            return Ok(known);
        }
        Box::pin(self.confirm()).await
    }

    /// The same, however long ago.
    pub(crate) fn known(&self) -> Arc<Identity> {
        self.handshake.get().identity
    }

    /// Asks the server who it is, on this connection.
    pub(crate) async fn confirm(&self) -> Result<Handshake, Error> {
        let asked = SystemEnv.now();
        let (server, replication, memory) =
            tokio::try_join!(self.info("server"), self.info("replication"), self.info("memory"))?;
        let clock = identity::field(&server, "server_time_usec").and_then(|time| time.parse().ok());
        let mut identity = Identity::read(&(server + &replication + &memory))?;
        let silent = || Error::new(ErrorKind::Config, "INFO shows no server_time_usec");
        let clock = clock.ok_or_else(silent)?;
        if identity.role != "master" {
            self.retire();
            let message = format!("the server is a {}; allowed is a master", identity.role);
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        if self.fails_over || identity.is_replicated() {
            identity.limits = self.limits().await?;
        }
        let told = Handshake { identity: Arc::new(identity), asked, clock };
        self.handshake.set(&told);
        Ok(told)
    }

    /// What limits the writes of a master that is cut off, if that may be asked.
    async fn limits(&self) -> Result<Limits, Error> {
        if self.refused_config.load(Ordering::Relaxed) {
            return Ok(Limits::default());
        }
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg("min-replicas-*").arg("cluster-node-timeout");
        match self.send(&ask).await? {
            Ok(answer) => Ok(Limits::read(&redis::from_redis_value(answer).unwrap_or_default())),
            Err(error) => {
                let error = error::of_command(&error);
                // A server that is busy now says nothing of what may be asked.
                if error.is_retryable() {
                    return Err(error);
                }
                self.refused_config.store(true, Ordering::Relaxed);
                Ok(Limits::default())
            }
        }
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
        match self.limited(self.connection.send(command)).await? {
            Ok(value) => Ok(value.extract_error()),
            Err(error) => {
                if error.is_unrecoverable_error() || error.is_io_error() {
                    self.retire();
                }
                Ok(Err(error))
            }
        }
    }

    /// The same; `asking` for keys of a slot that is on its way to this server.
    pub(crate) async fn ask(
        &self,
        asking: bool,
        command: &Cmd,
    ) -> Result<Result<Value, RedisError>, Error> {
        if !asking {
            return self.send(command).await;
        }
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        Ok(match self.limited(self.connection.send_all(&both)).await? {
            Ok(mut answers) => answers.pop().unwrap_or(Value::Nil).extract_error(),
            Err(error) => {
                if error.is_unrecoverable_error() || error.is_io_error() {
                    self.retire();
                }
                Err(error)
            }
        })
    }

    async fn limited<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::time::timeout(self.timeout, work).await.map_err(|_| {
            // Whatever hangs there, the next command tries another connection.
            self.retire();
            let shown = humantime::format_duration(self.timeout);
            Error::new(ErrorKind::OutcomeUnknown, format!("no answer within {shown}"))
        })
    }
}

/// Refuses a server whose `maxmemory-policy` may remove held locks, unless that is allowed.
pub(crate) fn check_memory_policy(
    evicting: Option<&str>,
    settings: &Settings,
) -> Result<(), Error> {
    let Some(policy) = evicting.filter(|_| !settings.allow_eviction) else {
        return Ok(());
    };
    let message = format!(
        "the server's maxmemory-policy is {policy}, which may remove held locks; allowed is \
         noeviction, or any with allow_eviction=true"
    );
    Err(Error::new(ErrorKind::Config, message))
}
