//! One connection. It is made, asks for the server's identity, and never reconnects by itself.

use std::{
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::{Env as _, Error, ErrorKind, SystemEnv};
use redis::{
    AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError,
};
use tokio::time::{Instant, timeout_at};

use crate::{
    connection::{
        PushListener,
        commands::Commands,
        error,
        handshake::{Handshake, LastHandshake, Seen},
        identity::{self, Identity, Limits},
        replicas::Replicas,
        socket::Socket,
        subscription::{self, Listening, PushPath},
        witness::Witness,
    },
    scripts::{self, reply},
    settings::{Acknowledgement, Address, Settings},
};
use crate::{
    settings::check_memory_policy,
    tunables::{CONFIRMED_WITHIN, SILENT_AFTER},
};

/// The script that [`Connection::check_scripts`] sends. By its text, since a server that has just
/// started knows no script.
static RUN_ID: LazyLock<String> = LazyLock::new(|| scripts::server("run_id"));

const NO_INFO: &str = "the server lets no script call INFO, and without that no grant is safe after a restart; must be a \
     server that does (Redis Cloud and Redis Enterprise do not), or another kind of store";

pub(crate) struct Connection {
    pub(crate) address: Address,
    pub(crate) commands: Commands,
    handshake: LastHandshake,
    /// Whether a replica may replace the server, even if it has no replica now.
    fails_over: bool,
    /// The user may not call CONFIG GET, so the client does not call it again.
    refused_config: AtomicBool,
    pub(crate) listening: Listening,
    replicas: Replicas,
    witness: Option<Witness>,
    /// The caller that makes the store's first use of this server holds the lock.
    pub(crate) first_use: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("dead", &self.commands.is_dead()).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, and does the handshake.
    pub(crate) async fn open(
        settings: &Settings,
        address: &Address,
        listener: Arc<dyn PushListener>,
    ) -> Result<Self, Error> {
        let by = Instant::now() + settings.timeout;
        let login = settings.login(ProtocolVersion::RESP3, by).await?;
        let opened = match timeout_at(by, Self::connect(settings, address, &login, listener)).await
        {
            Ok(result) => result,
            Err(_) => {
                let shown = humantime::format_duration(settings.timeout);
                let message = format!("no connection to the server within {shown}");
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        };
        opened.map_err(|error| error.on_server(address))
    }

    async fn connect(
        settings: &Settings,
        address: &Address,
        login: &RedisConnectionInfo,
        listener: Arc<dyn PushListener>,
    ) -> Result<Self, Error> {
        let dead = Arc::new(AtomicBool::new(false));
        let connection = Self::dial(settings, address, login, &dead, &listener).await;
        let connection = connection.map_err(|error| error::of_connecting(&error))?;
        let way = if settings.topology.is_cluster() {
            PushPath::Sharded(Box::new(settings.clone()), address.clone())
        } else {
            PushPath::Shared(connection.subscriber())
        };
        let timeout = settings.timeout;
        let this = Self {
            address: address.clone(),
            fails_over: settings.topology.fails_over(),
            refused_config: AtomicBool::new(false),
            replicas: Replicas::default(),
            witness: settings.witness.then(|| Witness::of(settings)),
            first_use: tokio::sync::Mutex::default(),
            listening: Listening::new(way, Arc::clone(&dead), listener, timeout),
            commands: Commands::new(connection, timeout, dead),
            handshake: LastHandshake::default(),
        };
        if let Some(witness) = &this.witness {
            // Only to learn whether the user may load a script; the next lines send this one, too.
            this.load(witness, &RUN_ID).await?;
        }
        let handshake = this.confirm().await?;
        this.check_scripts(&handshake.identity).await?;
        if handshake.identity.clustered && !settings.topology.is_cluster() {
            return Err(Error::new(ErrorKind::Config, error::PART_OF_A_CLUSTER));
        }
        // A server without cluster mode has the node's address now. It would grant everything, and
        // never answer MOVED.
        if !handshake.identity.clustered && settings.topology.is_cluster() {
            return Err(Error::new(ErrorKind::Unavailable, error::NO_PART_OF_A_CLUSTER));
        }
        check_memory_policy(handshake.identity.evicting.as_deref(), settings)?;
        Ok(this)
    }

    async fn dial(
        settings: &Settings,
        address: &Address,
        login: &RedisConnectionInfo,
        dead: &Arc<AtomicBool>,
        listener: &Arc<dyn PushListener>,
    ) -> Result<Socket, RedisError> {
        let (dead, listener) = (Arc::clone(dead), Arc::clone(listener));
        // The redis crate's own limit of 500 ms would make late grants routine. Our limit is per
        // command.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_push_sender(
            move |push: PushInfo| -> Result<(), ()> {
                subscription::received(push, &dead, &*listener);
                Ok(())
            },
        );
        Socket::open(settings, address, login, config).await
    }

    /// Returns once this connection is silent while the server answers on a new one: the network
    /// has dropped the connection without a word. Then the calls that wait on it would wait for
    /// their whole time limit.
    pub(crate) async fn silent(&self, settings: &Settings, listener: &Arc<dyn PushListener>) {
        // During a WAIT no other answer comes.
        let within = settings.acknowledgement().map_or(Duration::ZERO, |wanted| wanted.within);
        loop {
            let received = self.commands.received();
            tokio::time::sleep(SILENT_AFTER + within).await;
            if self.commands.received() == received
                && Self::open(settings, &self.address, Arc::clone(listener)).await.is_ok()
                && self.commands.received() == received
            {
                return;
            }
        }
    }

    /// The handshake. It is repeated if it is older than [`CONFIRMED_WITHIN`].
    pub(crate) async fn handshake(&self) -> Result<Handshake, Error> {
        let known = self.handshake.get();
        if SystemEnv.now().since(known.asked) < CONFIRMED_WITHIN {
            return Ok(known);
        }
        Box::pin(self.confirm()).await
    }

    /// The last handshake's identity, however old.
    pub(crate) fn known(&self) -> Arc<Identity> {
        self.handshake.get().identity
    }

    /// Asks for the server's identity on this connection.
    pub(crate) async fn confirm(&self) -> Result<Handshake, Error> {
        let asked = SystemEnv.now();
        let (server, replication, memory, found) = tokio::try_join!(
            self.info("server"),
            self.info("replication"),
            self.info("memory"),
            self.look_for_witness()
        )?;
        let clock = identity::field(&server, "server_time_usec").and_then(|time| time.parse().ok());
        let mut identity = Identity::read(&(server + &replication + &memory))?;
        let silent = || Error::new(ErrorKind::Config, "INFO shows no server_time_usec");
        let clock = clock.ok_or_else(silent)?;
        if identity.role != "master" {
            self.commands.retire();
            let message = format!("the server is a {}; must be a master", identity.role);
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        let mut seen = Seen::ALL;
        if let Some((run, witness)) = found {
            seen = Seen { record: run.as_ref() == Some(&identity.run), witness };
            // A SCRIPT FLUSH must not hide for long that the store is in use.
            if seen.record && !witness {
                self.load_witness().await?;
                seen = Seen::ALL;
            }
        }
        identity.witness = self.witness.as_ref().map(Witness::is_permitted);
        if self.fails_over || identity.is_replicated() || identity.witness == Some(true) {
            identity.limits = self.limits().await?;
        }
        let handshake = Handshake { identity: Arc::new(identity), asked, clock, seen };
        self.handshake.set(&handshake);
        Ok(handshake)
    }

    /// The run in the epoch record, and whether the witness is there. `None` if this client keeps
    /// no witness, or may not.
    async fn look_for_witness(&self) -> Result<Option<(Option<String>, bool)>, Error> {
        let Some(witness) = self.witness.as_ref().filter(|witness| witness.is_permitted()) else {
            return Ok(None);
        };
        let record = witness.ask_for_run();
        let (run, there) = tokio::join!(self.commands.send(&record), self.has_witness());
        let there = there?;
        // A record that cannot be read is for the first script to report.
        let Ok(run) = run else { return Ok(None) };
        let run =
            reply::list(run)?.first().and_then(|run| reply::text(run).ok()).map(str::to_owned);
        Ok(there.map(|there| (run, there)))
    }

    /// Whether the witness is there. `None` if the user may not know.
    pub(crate) async fn has_witness(&self) -> Result<Option<bool>, Error> {
        let Some(witness) = &self.witness else { return Ok(None) };
        match self.commands.send(&witness.ask()).await {
            Ok(answer) => {
                let there = reply::list(answer)?.first().map(reply::number).transpose()?;
                Ok(Some(there == Some(1)))
            }
            Err(refusal) => witness.refused(&refusal).map(|()| None),
        }
    }

    /// Puts the witness into the script cache. Returns whether the user may.
    pub(crate) async fn load_witness(&self) -> Result<bool, Error> {
        match &self.witness {
            Some(witness) => self.load(witness, witness.text()).await,
            None => Ok(false),
        }
    }

    async fn load(&self, witness: &Witness, text: &str) -> Result<bool, Error> {
        if !witness.is_permitted() {
            return Ok(false);
        }
        match self.commands.send(redis::cmd("SCRIPT").arg("LOAD").arg(text)).await {
            Ok(_) => Ok(true),
            Err(refusal) => witness.refused(&refusal).map(|()| false),
        }
    }

    /// Whether the witness was there before a renewal that has just been carried out on this
    /// connection. If not, it is now.
    pub(crate) async fn was_witnessed(&self) -> Result<bool, Error> {
        let handshake = self.handshake().await?;
        if !handshake.seen.witness {
            self.load_witness().await?;
            self.add(&handshake, Seen { witness: true, ..handshake.seen });
        }
        Ok(handshake.seen.witness)
    }

    /// Adds to a handshake what this client has done since.
    pub(crate) fn add(&self, handshake: &Handshake, seen: Seen) {
        self.handshake.add(handshake, seen);
    }

    /// Checks that scripts see the server that INFO describes. They read its run id before they
    /// write an epoch record.
    ///
    /// # Errors
    /// `Config` if scripts may not call INFO, or see another server.
    async fn check_scripts(&self, identity: &Identity) -> Result<(), Error> {
        let answer = match self.commands.send(redis::cmd("EVAL").arg(&*RUN_ID).arg(0)).await {
            Ok(answer) => answer,
            Err(refusal) => {
                let error = error::of_command(&refusal);
                // An error from inside the script names the script.
                let inside = refusal.detail().is_some_and(|detail| detail.contains("script"));
                return Err(
                    if error.kind() == ErrorKind::Config
                        || inside && error::is_unknown_refusal(&refusal)
                    {
                        Error::new(ErrorKind::Config, NO_INFO).with_source(refusal)
                    } else {
                        error
                    },
                );
            }
        };
        let run = reply::text(&answer).unwrap_or_default();
        if run == identity.run {
            return Ok(());
        }
        let message = format!(
            "INFO shows the run id {}, and a script on the server sees {run:?}; must be one server, with no proxy between \
             that answers INFO itself or spreads commands over several servers",
            identity.run
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    /// The settings that limit how long an isolated master accepts writes, if the user may read
    /// them.
    async fn limits(&self) -> Result<Limits, Error> {
        if self.refused_config.load(Ordering::Relaxed) {
            return Ok(Limits::default());
        }
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg("min-replicas-*").arg("cluster-node-timeout").arg("repl-backlog-ttl");
        ask.arg("appendonly").arg("appendfsync").arg("no-appendfsync-on-rewrite");
        match self.commands.send(&ask).await {
            Ok(answer) => Ok(Limits::read(&redis::from_redis_value(answer).unwrap_or_default())),
            // It may pass. Until the server has answered once, nothing is promised; after that, no
            // handshake does without.
            Err(refusal) if error::is_unknown_refusal(&refusal) => {
                let nothing_known = self.known().limits == Limits::default();
                nothing_known.then(Limits::default).ok_or_else(|| error::of_command(&refusal))
            }
            Err(refusal) => {
                let error = error::of_command(&refusal);
                // A busy server's error says nothing about permissions.
                if error.is_retryable() {
                    return Err(error);
                }
                self.refused_config.store(true, Ordering::Relaxed);
                Ok(Limits::default())
            }
        }
    }

    /// A section of INFO.
    pub(crate) async fn info(&self, section: &str) -> Result<String, Error> {
        let answer = self.commands.ask(redis::cmd("INFO").arg(section)).await?;
        redis::from_redis_value(answer)
            .map_err(|_| Error::new(ErrorKind::Config, "INFO was not answered with text"))
    }

    /// Waits until enough replicas have all that was written on this connection before.
    ///
    /// # Errors
    /// `Unavailable` if too few replicas have it. Other errors if that is unknown.
    pub(crate) async fn acknowledged(&self, wanted: Acknowledgement) -> Result<(), Error> {
        self.replicas.acknowledge(wanted, async |wait: Cmd| self.commands.ask(&wait).await).await
    }
}
