//! The connection that is in use, and scripts on it.

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::{Error, ErrorKind, Guarantees};
use redis::{Cmd, ErrorKind as Driver, RedisError, ServerErrorKind, Value};

use crate::{
    config::Settings,
    error,
    failover::Failover,
    guarantees,
    identity::Identity,
    keys::{Bucket, Keys},
    link::{CONFIRM_EVERY, Link},
    pushes::Pushes,
    reply::{self, Reply},
    routes::Routes,
    scripts::Script,
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
    routes: Routes,
    finder: Finder,
    agreed: Mutex<Agreed>,
    promised: RwLock<(Arc<Guarantees>, Option<Arc<Identity>>)>,
    closed: AtomicBool,
}

impl Store {
    pub(crate) async fn open(settings: Settings, client: u128) -> Result<Self, Error> {
        let keys = Keys::new(&settings.prefix);
        let pushes = Pushes::new(&keys, client);
        let store = Self::new(settings, keys, pushes);
        store.link(Bucket::FIRST).await?;
        Ok(store)
    }

    /// A store that connects when it is first asked.
    pub(crate) fn new(settings: Settings, keys: Keys, pushes: Pushes) -> Self {
        let agreed = settings.first_agreed();
        Self {
            promised: RwLock::new((Arc::new(guarantees::of(agreed, &settings, None)), None)),
            routes: Routes::new(keys.buckets().count()),
            finder: Finder::new(&settings),
            settings,
            keys,
            pushes: Arc::new(pushes),
            agreed: Mutex::new(agreed),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn agreed(&self) -> Agreed {
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn promised(&self) -> Arc<Guarantees> {
        Arc::clone(&self.promised.read().unwrap_or_else(PoisonError::into_inner).0)
    }

    fn promise(&self, identity: Option<&Arc<Identity>>) {
        let mut promised = self.promised.write().unwrap_or_else(PoisonError::into_inner);
        let identity = identity.cloned().or_else(|| promised.1.clone());
        *promised = (
            Arc::new(guarantees::of(self.agreed(), &self.settings, identity.as_deref())),
            identity,
        );
    }

    /// The connection to the server of a bucket, made anew if the last one has ended.
    pub(crate) async fn link(&self, bucket: Bucket) -> Result<Arc<Link>, Error> {
        match self.routes.current(bucket) {
            Some(link) => Ok(link),
            None => self.find(bucket).await,
        }
    }

    async fn find(&self, bucket: Bucket) -> Result<Arc<Link>, Error> {
        let place = self.finder.locate(bucket).await?;
        let link = self.link_to(&place, bucket).await?;
        self.routes.set(bucket, Some(Arc::clone(&link)));
        if self.closed.load(Ordering::SeqCst) {
            self.routes.clear();
        }
        Ok(link)
    }

    async fn link_to(&self, place: &Place, bucket: Bucket) -> Result<Arc<Link>, Error> {
        let line = self.routes.line(place);
        let mut only_one = line.lock().await;
        if let Some(link) = only_one.as_ref().filter(|link| !link.is_dead()) {
            return Ok(Arc::clone(link));
        }
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the connection was closed"));
        }
        let link = Link::open(&self.settings, place, Arc::clone(&self.pushes)).await?;
        let link = Arc::new(link);
        let identity = link.identity().await?;
        self.compare_settings(&link, bucket).await?;
        self.promise(Some(&identity));
        keep_confirming(&link, &self.pushes, &self.finder);
        *only_one = Some(Arc::clone(&link));
        Ok(link)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.routes.clear();
    }

    async fn compare_settings(&self, link: &Link, bucket: Bucket) -> Result<(), Error> {
        let mut ask = redis::cmd("HMGET");
        ask.arg(self.keys.epoch(bucket)).arg("longest").arg("quarantine");
        let answer = link.send(&ask).await?.map_err(|error| error::of_command(&error))?;
        match reply::list(answer)?.as_slice() {
            [longest @ Value::BulkString(_), quarantine] => {
                self.adopt(reply::number(longest)?, reply::text(quarantine)? == "on")
            }
            _ => Ok(()),
        }
    }

    /// Takes over the store's settings, unless this client was told otherwise.
    pub(crate) fn adopt(&self, longest: u64, quarantine: bool) -> Result<(), Error> {
        let longest = Duration::from_micros(longest);
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
        self.set_agreed(Agreed { longest, quarantine });
        Ok(())
    }

    pub(crate) fn set_agreed(&self, agreed: Agreed) {
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner) = agreed;
        self.promise(None);
    }

    /// Runs a script that asks for nothing but keys and arguments of its own.
    pub(crate) async fn run(
        &self,
        bucket: Bucket,
        script: &Script,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Value, Error> {
        let link = self.link(bucket).await?;
        self.run_on(&link, script, keys, arguments).await
    }

    async fn run_on(
        &self,
        link: &Link,
        script: &Script,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Value, Error> {
        let call = |name: &str, script: &str| -> Cmd {
            let mut command = redis::cmd(name);
            command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
            command
        };
        let mut answer = link.send(&call("EVALSHA", &script.hash)).await?;
        if answer.as_ref().is_err_and(is_noscript) {
            // The whole text runs it and loads it in one.
            answer = link.send(&call("EVAL", &script.source)).await?;
        }
        if answer.as_ref().is_err_and(|error| error.code() == Some("READONLY")) {
            // It has become a replica: the next command looks for the master.
            link.retire();
        }
        answer.map_err(|error| error::of_command(&error))
    }

    /// Runs a script that may grant: it is told who the server said it is on this connection.
    pub(crate) async fn run_in_epoch(
        &self,
        bucket: Bucket,
        script: &Script,
        keys: &[String],
        own: &[&[u8]],
        read: impl Fn(Value) -> Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        let mut waiting_for_places = self.pushes.waits_in(bucket);
        for _ in 0..4 {
            let link = self.link(bucket).await?;
            if std::mem::take(&mut waiting_for_places) {
                link.listening.subscribe(bucket).await?;
            }
            let identity = link.identity().await?;
            let agreed = self.agreed();
            let longest = agreed.longest.as_micros().to_string();
            let quarantine = if agreed.quarantine { "on" } else { "off" };
            let mut arguments: Vec<&[u8]> = vec![
                identity.run.as_bytes(),
                identity.replid.as_bytes(),
                longest.as_bytes(),
                quarantine.as_bytes(),
            ];
            arguments.extend_from_slice(own);
            let failover = Failover::of(&self.settings, &identity).argument();
            arguments.push(failover.as_bytes());
            let answer = read(self.run_on(&link, script, keys, &arguments).await?)?;
            match answer.reply {
                Some(Reply::Stale) if answer.first.is_none() => {
                    let identity = link.confirm().await?;
                    self.promise(Some(&identity));
                }
                Some(Reply::Settings(longest, quarantine)) if answer.first.is_none() => {
                    self.adopt(longest, quarantine)?;
                }
                _ => return Ok(answer),
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "the server changes its role again and again"))
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

fn is_noscript(error: &RedisError) -> bool {
    error.kind() == Driver::Server(ServerErrorKind::NoScript)
}

/// Confirms the handshake until the connection has ended or nobody uses it.
fn keep_confirming(link: &Arc<Link>, pushes: &Arc<Pushes>, finder: &Finder) {
    let (link, pushes, finder) = (Arc::downgrade(link), Arc::clone(pushes), finder.clone());
    tokio::spawn(async move {
        let mut last = None;
        loop {
            tokio::time::sleep(CONFIRM_EVERY).await;
            let Some(link) = link.upgrade().filter(|link| !link.is_dead()) else { return };
            match link.confirm().await {
                Ok(identity) => {
                    if last.replace(Arc::clone(&identity)).is_some_and(|old| old != identity) {
                        pushes.recheck_all();
                    }
                }
                Err(error) => tracing::warn!(%error, "the server did not confirm who it is"),
            }
            if finder.has_left(&link.place).await {
                // Whoever waits asks again, and so finds the new one.
                link.retire();
                pushes.recheck_all();
            }
            link.listening.unsubscribe_if_idle().await;
        }
    });
}
