//! The connections that are in use, and what the store is agreed to be.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::{Env as _, Error, ErrorKind, Guarantees, SystemEnv};
use redis::{Cmd, Value};

use crate::{
    background::look_after,
    batch::{Gathering, gathering},
    error,
    identity::Identity,
    keys::{Bucket, Keys},
    link::Link,
    promises::Promises,
    pushes::Pushes,
    redirect::Redirect,
    reply::{self, Reply},
    routes::Routes,
    settings::Settings,
    topology::{Finder, Place},
};

/// What the client believes the store's settings to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) longest: Duration,
    pub(crate) quarantine: bool,
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    pub(crate) pushes: Arc<Pushes>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) promises: Arc<Promises>,
    gatherings: Box<[Gathering]>,
    pub(crate) finder: Finder,
    closed: AtomicBool,
}

impl Store {
    pub(crate) async fn open(settings: Settings, client: u128) -> Result<Self, Error> {
        let keys = Keys::in_topology(&settings.prefix, &settings.topology);
        let mut pushes = Pushes::new(&keys, client);
        pushes.only_rechecks = settings.acknowledgement().is_some();
        let store = Self::new(settings, keys, pushes);
        store.link(Bucket::FIRST).await?;
        // What is promised depends on all servers; one that is down is another matter.
        let rest = store.keys.buckets().skip(1).map(|bucket| store.link(bucket));
        futures_util::future::join_all(rest).await;
        Ok(store)
    }

    /// A store that connects when it is first asked.
    pub(crate) fn new(settings: Settings, keys: Keys, pushes: Pushes) -> Self {
        Self {
            promises: Arc::new(Promises::new(&settings)),
            gatherings: keys.buckets().map(|_| gathering()).collect(),
            routes: Arc::new(Routes::new(keys.buckets().count())),
            finder: Finder::new(&settings),
            settings,
            keys,
            pushes: Arc::new(pushes),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn agreed(&self) -> Agreed {
        self.promises.agreed()
    }

    pub(crate) fn promised(&self) -> Arc<Guarantees> {
        self.promises.promised()
    }

    /// The connection to the server of a bucket, made anew if the last one has ended.
    pub(crate) async fn link(&self, bucket: Bucket) -> Result<Arc<Link>, Error> {
        match self.routes.current(bucket) {
            Some(link) => Ok(link),
            // Boxed: what seldom happens is not to make every call large.
            None => Box::pin(self.search(bucket)).await,
        }
    }

    /// One looks for the server, and all who have asked meanwhile have what it found.
    async fn search(&self, bucket: Bucket) -> Result<Arc<Link>, Error> {
        let asked = SystemEnv.now();
        let mut last = self.routes.search(bucket).lock().await;
        if let Some(link) = self.routes.current(bucket) {
            return Ok(link);
        }
        if let Some(error) = last.since(asked) {
            return Err(error);
        }
        let found = self.find(bucket).await;
        last.note(&found, SystemEnv.now());
        found
    }

    async fn find(&self, bucket: Bucket) -> Result<Arc<Link>, Error> {
        let place = self.finder.locate(bucket).await?;
        let link = match self.link_to(&place, bucket).await {
            // The map may be old; if it is not, the second failure says what is wrong.
            Err(error) if error.is_retryable() && self.finder.doubt(&place) => {
                let place = self.finder.locate(bucket).await?;
                self.link_to(&place, bucket).await?
            }
            other => other?,
        };
        self.routes.set(bucket, Some(Arc::clone(&link)));
        self.routes.prune();
        if self.closed.load(Ordering::SeqCst) {
            self.routes.clear();
        }
        Ok(link)
    }

    /// The connection to a server, for this bucket first. All buckets of a node that hangs wait for it
    /// together.
    pub(crate) async fn link_to(&self, place: &Place, bucket: Bucket) -> Result<Arc<Link>, Error> {
        let asked = SystemEnv.now();
        let line = self.routes.line(place);
        let mut tried = line.lock().await;
        if let Some(link) = tried.link.as_ref().filter(|link| !link.is_dead()) {
            return Ok(Arc::clone(link));
        }
        if let Some(error) = tried.failure.since(asked) {
            return Err(error);
        }
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, error::CLOSED));
        }
        let made = self.connect(place, bucket).await.map_err(error::before_asking);
        tried.failure.note(&made, SystemEnv.now());
        tried.link = made.as_ref().ok().cloned();
        made
    }

    async fn connect(&self, place: &Place, bucket: Bucket) -> Result<Arc<Link>, Error> {
        let link = Link::open(&self.settings, place, Arc::clone(&self.pushes)).await?;
        let link = Arc::new(link);
        link.handshake().await?;
        if let Some(question) = self.finder.question() {
            let answer = link.send(&question).await?;
            self.finder.recognise(place, answer.map_err(|error| error::of_command(&error))?)?;
        }
        self.compare_settings(&link, bucket).await?;
        self.promises.heard(&link, &self.routes);
        look_after(&link, self);
        Ok(link)
    }

    /// Who the server of a bucket said it is on the present connection.
    pub(crate) fn identity(&self, bucket: Bucket) -> Option<Arc<Identity>> {
        self.routes.current(bucket).map(|link| link.known())
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.routes.clear();
        self.finder.close();
    }

    /// The settings in a bucket's epoch record, if there is one.
    pub(crate) async fn stored(&self, bucket: Bucket) -> Result<Option<Agreed>, Error> {
        read_settings(self.send(bucket, &self.ask_for_settings(bucket)).await?)
    }

    fn ask_for_settings(&self, bucket: Bucket) -> Cmd {
        let mut ask = redis::cmd("HMGET");
        ask.arg(self.keys.epoch(bucket)).arg("longest").arg("quarantine");
        ask
    }

    async fn compare_settings(&self, link: &Link, bucket: Bucket) -> Result<(), Error> {
        let answer = match link.send(&self.ask_for_settings(bucket)).await? {
            Ok(answer) => answer,
            // The first script learns where to go, and what the settings there are.
            Err(error) if Redirect::of(&error, &link.place).is_some() => return Ok(()),
            Err(error) => return Err(error::of_command(&error)),
        };
        read_settings(answer)?.map_or(Ok(()), |stored| self.adopt(stored))
    }

    /// Takes over the store's settings, unless this client was told otherwise.
    pub(crate) fn adopt(&self, stored: Agreed) -> Result<(), Error> {
        let Agreed { longest, quarantine } = stored;
        let show = humantime::format_duration;
        if let Some(told) = self.settings.longest_lease.filter(|told| *told != longest) {
            let message = format!(
                "this client was told a longest lease of {}, and the store has {}; allowed is the \
                 same for all",
                show(told),
                show(longest)
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let word = |on: bool| if on { "on" } else { "off" };
        if let Some(told) = self.settings.quarantine.filter(|told| *told != quarantine) {
            let (told, has) = (word(told), word(quarantine));
            let message = format!(
                "this client was told quarantine={told}, and the store has {has}; allowed is the \
                 same for all"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        self.set_agreed(stored);
        Ok(())
    }

    pub(crate) fn set_agreed(&self, agreed: Agreed) {
        self.promises.agree(agreed);
    }

    /// The calls of a bucket that may go together.
    pub(crate) fn gathering(&self, bucket: Bucket) -> &Gathering {
        &self.gatherings[bucket.index()]
    }
}

fn read_settings(answer: Value) -> Result<Option<Agreed>, Error> {
    match reply::list(answer)?.as_slice() {
        [longest @ Value::BulkString(_), quarantine] => Ok(Some(Agreed {
            longest: Duration::from_micros(reply::number(longest)?),
            quarantine: reply::text(quarantine)? == "on",
        })),
        _ => Ok(None),
    }
}

/// The answer of a script that may grant; `first` is what [`crate::scripts::RELEASE`] puts before it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) first: Option<u64>,
    pub(crate) reply: Option<Reply>,
}

impl Answer {
    pub(crate) fn plain(value: Value) -> Result<Self, Error> {
        Ok(Self { first: None, reply: Some(Reply::read(value)?) })
    }

    pub(crate) fn after_number(value: Value) -> Result<Self, Error> {
        match value {
            Value::Int(number) => {
                let first = u64::try_from(number).map_err(|_| reply::not_understood())?;
                return Ok(Self { first: Some(first), reply: None });
            }
            // The token that the next request was granted.
            Value::BulkString(_) => {
                return Ok(Self { first: Some(1), reply: Some(Reply::read(value)?) });
            }
            _ => {}
        }
        let mut parts = reply::list(value)?.into_iter();
        let first = reply::number(&parts.next().ok_or_else(reply::not_understood)?)?;
        let reply = match parts.next() {
            Some(value @ Value::Array(_)) => Some(Reply::read(value)?),
            _ => None,
        };
        Ok(Self { first: Some(first), reply })
    }

    pub(crate) fn number(value: Value) -> Result<Self, Error> {
        Ok(Self { first: Some(reply::number(&value)?), reply: None })
    }
}
