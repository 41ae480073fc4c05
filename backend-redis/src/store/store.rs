//! The connections in use, and the settings on which the clients agree.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use lock_core::{Env as _, Error, ErrorKind, Guarantees, SystemEnv, UnknownErrors};
use redis::{Cmd, Value};

use crate::{
    connection::{Connection, PushListener, error, identity::Identity, pool::Pool},
    discovery::{Discovery, redirect::Redirect},
    guarantees::GuaranteeTracker,
    keys::{Bucket, Keys},
    scripts::reply,
    settings::{Address, AgreedSettings, Settings, version},
    store::{background::spawn_background_tasks, unreadable},
};

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    pub(crate) listener: Arc<dyn PushListener>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) guarantees: Arc<GuaranteeTracker>,
    pub(crate) discovery: Discovery,
    pub(super) unknown_errors: UnknownErrors,
    closed: AtomicBool,
}

impl Store {
    /// Makes a store that connects on the first call.
    pub(crate) fn new(settings: Settings, keys: Keys, listener: Arc<dyn PushListener>) -> Self {
        Self {
            guarantees: Arc::new(GuaranteeTracker::new(&settings)),
            pool: Arc::new(Pool::new(keys.buckets().count())),
            discovery: Discovery::new(&settings),
            settings,
            keys,
            listener,
            unknown_errors: UnknownErrors::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Connects to all servers.
    pub(crate) async fn connect_all(&self) -> Result<(), Error> {
        self.connection(Bucket::FIRST).await?;
        // The guarantees depend on all servers. If one of the others is down, the connect still
        // succeeds.
        let rest = self.keys.buckets().skip(1).map(|bucket| self.connection(bucket));
        futures_util::future::join_all(rest).await;
        Ok(())
    }

    pub(crate) fn agreed(&self) -> AgreedSettings {
        self.guarantees.agreed()
    }

    pub(crate) fn promised(&self) -> Arc<Guarantees> {
        self.guarantees.promised()
    }

    /// The connection to the server of a bucket. Makes a new one if the last one has ended.
    pub(crate) async fn connection(&self, bucket: Bucket) -> Result<Arc<Connection>, Error> {
        match self.pool.current(bucket) {
            Some(connection) => Ok(connection),
            // Boxed, so that a rare case does not make every call large.
            None => Box::pin(self.search(bucket)).await,
        }
    }

    /// One task searches for the server. All tasks that ask meanwhile get its result.
    async fn search(&self, bucket: Bucket) -> Result<Arc<Connection>, Error> {
        let asked = SystemEnv.now();
        let mut last = self.pool.search(bucket).lock().await;
        if let Some(connection) = self.pool.current(bucket) {
            return Ok(connection);
        }
        if let Some(error) = last.since(asked) {
            return Err(error);
        }
        let found = self.find(bucket).await;
        last.note(&found, SystemEnv.now());
        found
    }

    async fn find(&self, bucket: Bucket) -> Result<Arc<Connection>, Error> {
        let address = self.located(self.discovery.locate(bucket).await)?;
        let connection = match self.connection_to(&address, bucket).await {
            // The map may be old. If it is not, the second failure says what is wrong.
            Err(error) if error.is_retryable() && self.discovery.doubt(&address) => {
                let address = self.located(self.discovery.locate(bucket).await)?;
                self.connection_to(&address, bucket).await?
            }
            other => other?,
        };
        self.pool.set(bucket, Some(Arc::clone(&connection)));
        self.pool.prune();
        if self.closed.load(Ordering::SeqCst) {
            self.pool.clear();
        }
        Ok(connection)
    }

    /// The connection to a server, first used for this bucket. If the node hangs, all its buckets
    /// wait for it together.
    pub(crate) async fn connection_to(
        &self,
        address: &Address,
        bucket: Bucket,
    ) -> Result<Arc<Connection>, Error> {
        let asked = SystemEnv.now();
        let slot = self.pool.slot(address);
        let mut tried = slot.lock().await;
        if let Some(connection) =
            tried.connection.as_ref().filter(|connection| !connection.commands.is_dead())
        {
            return Ok(Arc::clone(connection));
        }
        if let Some(error) = tried.failure.since(asked) {
            return Err(error);
        }
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, error::CLOSED));
        }
        let made = self.connect(address, bucket).await.map_err(error::before_asking);
        let made = self.judged(&address.to_string(), made);
        tried.failure.note(&made, SystemEnv.now());
        tried.connection = made.as_ref().ok().cloned();
        made
    }

    /// The address of a server, or why there is none.
    pub(crate) fn located(&self, found: Result<Address, Error>) -> Result<Address, Error> {
        self.judged("discovery", found)
    }

    /// The result of a request. An unknown error that has lasted for a longest lease is final.
    pub(super) fn judged<T>(&self, what: &str, result: Result<T, Error>) -> Result<T, Error> {
        match result {
            Ok(done) => {
                self.unknown_errors.forget(what);
                Ok(done)
            }
            Err(error) => {
                let limit = self.agreed().longest_lease;
                let (unknown, now) = (error::is_unknown_refusal, SystemEnv.now());
                Err(self.unknown_errors.judge(what, error, unknown, now, limit))
            }
        }
    }

    async fn connect(&self, address: &Address, bucket: Bucket) -> Result<Arc<Connection>, Error> {
        let connection =
            Connection::open(&self.settings, address, Arc::clone(&self.listener)).await?;
        let connection = Arc::new(connection);
        connection.handshake().await?;
        if let Some(question) = self.discovery.question() {
            self.discovery.recognise(address, connection.commands.ask(&question).await?)?;
        }
        self.compare_settings(&connection, bucket).await?;
        self.guarantees.update(&connection, &self.pool);
        spawn_background_tasks(
            &self.settings,
            &connection,
            &self.pool,
            &self.guarantees,
            &self.listener,
            &self.discovery,
        );
        Ok(connection)
    }

    /// The identity of a bucket's server on the present connection.
    pub(crate) fn identity(&self, bucket: Bucket) -> Option<Arc<Identity>> {
        self.pool.current(bucket).map(|connection| connection.known())
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.pool.clear();
        self.discovery.close();
    }

    /// The settings in a bucket's epoch record, if there is one.
    pub(crate) async fn stored(&self, bucket: Bucket) -> Result<Option<AgreedSettings>, Error> {
        let answer = self.send(bucket, &self.ask_for_settings(bucket)).await?;
        read_settings(&self.keys.epoch(bucket), answer)
    }

    fn ask_for_settings(&self, bucket: Bucket) -> Cmd {
        let mut ask = redis::cmd("HMGET");
        ask.arg(self.keys.epoch(bucket)).arg("longest").arg("quarantine").arg("version");
        ask
    }

    async fn compare_settings(&self, connection: &Connection, bucket: Bucket) -> Result<(), Error> {
        let answer = match connection.commands.send(&self.ask_for_settings(bucket)).await {
            Ok(answer) => answer,
            // The first script learns where to go, and which settings hold there.
            Err(error) if Redirect::of(&error, &connection.address).is_some() => return Ok(()),
            Err(refusal) => {
                if error::may_be_of_contents(&refusal) {
                    let epoch = [self.keys.epoch(bucket)];
                    unreadable::check(connection, &self.keys, &epoch, &refusal).await?;
                }
                return Err(error::of_command(&refusal));
            }
        };
        read_settings(&self.keys.epoch(bucket), answer)?.map_or(Ok(()), |stored| self.adopt(stored))
    }

    /// Uses the store's settings, unless this client is configured with others.
    pub(crate) fn adopt(&self, stored: AgreedSettings) -> Result<(), Error> {
        let AgreedSettings { longest_lease: longest, quarantine } = stored;
        let show = humantime::format_duration;
        if let Some(configured) =
            self.settings.longest_lease.filter(|configured| *configured != longest)
        {
            let message = format!(
                "this client expects a longest lease of {}, but the store's is {}; change one of them \
                 (`leasehold init` sets the store's)",
                show(configured),
                show(longest)
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let word = |on: bool| if on { "on" } else { "off" };
        if let Some(configured) =
            self.settings.quarantine.filter(|configured| *configured != quarantine)
        {
            let (configured, has) = (word(configured), word(quarantine));
            let message = format!(
                "this client expects quarantine={configured}, but the store has {has}; change one of them \
                 (`leasehold init` sets the store's)"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        self.set_agreed(stored);
        Ok(())
    }

    pub(crate) fn set_agreed(&self, agreed: AgreedSettings) {
        self.guarantees.agree(agreed);
    }
}

/// The settings, if they are set. Refuses records of another version.
fn read_settings(epoch: &str, answer: Value) -> Result<Option<AgreedSettings>, Error> {
    let answer = reply::list(answer)?;
    let [longest, quarantine, version] = answer.as_slice() else {
        return Err(reply::not_understood());
    };
    // As in version.lua.
    let version = match (version, longest) {
        (Value::Nil, Value::Nil) => return Ok(None),
        (Value::Nil, _) => "0",
        (version, _) => reply::text(version)?,
    };
    version::check(version)?;
    if matches!(longest, Value::Nil) {
        return Ok(None);
    }
    let settings = AgreedSettings::read(reply::text(longest).ok(), reply::text(quarantine).ok());
    settings.map(Some).map_err(|what| unreadable::epoch(epoch, &what))
}
