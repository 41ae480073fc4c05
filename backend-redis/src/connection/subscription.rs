//! The subscriptions through which pushes reach this process.
//!
//! Pushes arrive on the connection of the commands. Sharded channels have a second connection: a
//! server that gives a slot away ends the slot's subscriptions on its own, and the redis crate
//! would take that message for the answer to the oldest command.

use std::{
    collections::HashSet,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use lock_core::{Error, ErrorKind};
use redis::{
    AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, RedisError, Value,
    aio::MultiplexedConnection,
};
use tokio::time::Instant;

use crate::{
    connection::{PushListener, error, socket::Socket},
    keys::Bucket,
    settings::{Address, Settings},
    tunables::SILENT_AFTER,
};

/// The connection on which pushes arrive.
pub(crate) enum PushPath {
    /// The connection of the commands.
    Shared(MultiplexedConnection),
    /// A separate connection to this address, for sharded channels.
    Sharded(Box<Settings>, Address),
}

/// The subscriptions that belong to one connection.
pub(crate) struct Listening {
    path: PushPath,
    /// Set when pushes may have been missed. The next caller then makes a new connection.
    dead: Arc<AtomicBool>,
    listener: Arc<dyn PushListener>,
    timeout: Duration,
    /// One bit for each bucket.
    subscribed: Arc<AtomicU64>,
    /// The lock makes subscribing serial.
    second: tokio::sync::Mutex<Option<Sharded>>,
    /// Other channels, by name. They are only on the connection of the commands.
    named: tokio::sync::Mutex<HashSet<String>>,
}

/// The connection for sharded channels.
struct Sharded {
    connection: Socket,
    /// The server has ended a subscription, so this connection is not used again.
    ended: Arc<AtomicBool>,
}

impl Listening {
    pub(crate) fn new(
        path: PushPath,
        dead: Arc<AtomicBool>,
        listener: Arc<dyn PushListener>,
        timeout: Duration,
    ) -> Self {
        Self {
            path,
            dead,
            listener,
            timeout,
            subscribed: Arc::default(),
            second: Default::default(),
            named: Default::default(),
        }
    }

    fn has(&self, bucket: Bucket) -> bool {
        self.subscribed.load(Ordering::SeqCst) & bit(bucket) != 0
    }

    async fn limited<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::time::timeout(self.timeout, work).await.map_err(|_| {
            self.dead.store(true, Ordering::SeqCst);
            let shown = humantime::format_duration(self.timeout);
            Error::new(ErrorKind::Unavailable, format!("no subscription within {shown}"))
        })
    }

    /// Makes sure that pushes of a bucket arrive.
    pub(crate) async fn subscribe(&self, bucket: Bucket) -> Result<(), Error> {
        if self.has(bucket) {
            return Ok(());
        }
        let mut second = self.second.lock().await;
        if self.has(bucket) {
            return Ok(());
        }
        let channel = self.listener.channel(bucket);
        match &self.path {
            PushPath::Shared(shared) => {
                let mut connection = shared.clone();
                let done = self.limited(connection.subscribe(channel)).await?;
                done.map_err(|error| self.refused(&error))?;
            }
            PushPath::Sharded(settings, address) => {
                let done =
                    self.limited(self.subscribe_sharded(settings, address, &mut second, channel));
                if !done.await?? {
                    return Ok(());
                }
            }
        }
        self.subscribed.fetch_or(bit(bucket), Ordering::SeqCst);
        // A connection that ended before this bit was set has not cleared it. One that ends later
        // clears it.
        if let Some(Sharded { ended, .. }) = &*second
            && ended.load(Ordering::SeqCst)
        {
            self.subscribed.fetch_and(!bit(bucket), Ordering::SeqCst);
        }
        Ok(())
    }

    /// Makes sure that messages of one more channel arrive, until the connection ends.
    ///
    /// # Errors
    /// `Unsupported` where channels are sharded.
    pub(crate) async fn subscribe_to(&self, channel: &str) -> Result<(), Error> {
        let PushPath::Shared(shared) = &self.path else {
            let message = "a channel of its own needs one server, and this is a cluster";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let mut named = self.named.lock().await;
        if !named.contains(channel) {
            let mut connection = shared.clone();
            let done = self.limited(connection.subscribe(channel)).await?;
            done.map_err(|error| self.refused(&error))?;
            named.insert(channel.to_owned());
        }
        Ok(())
    }

    /// Ends the subscriptions to those of these channels that `needed` refuses.
    pub(crate) async fn unsubscribe_from(&self, needed: impl Fn(&str) -> bool) {
        let PushPath::Shared(shared) = &self.path else { return };
        let mut named = self.named.lock().await;
        let idle: Vec<_> = named.iter().filter(|channel| !needed(channel)).cloned().collect();
        for channel in idle {
            let mut connection = shared.clone();
            if !matches!(self.limited(connection.unsubscribe(&channel)).await, Ok(Ok(()))) {
                self.dead.store(true, Ordering::SeqCst);
            }
            named.remove(&channel);
        }
    }

    /// Returns whether this node serves the slot of the channel.
    async fn subscribe_sharded(
        &self,
        settings: &Settings,
        address: &Address,
        second: &mut Option<Sharded>,
        channel: &str,
    ) -> Result<bool, Error> {
        second.take_if(|known| known.ended.load(Ordering::SeqCst));
        let known = match second {
            Some(known) => known,
            None => second.insert(self.open_sharded(settings, address).await?),
        };
        let mut subscribe = redis::cmd("SSUBSCRIBE");
        let answer = known.connection.send(subscribe.arg(channel)).await;
        match answer.and_then(Value::extract_error) {
            Ok(_) => Ok(true),
            // The script will learn that too.
            Err(error) if error.redirect_node().is_some() => Ok(false),
            Err(error) => Err(error::of_connecting(&error)),
        }
    }

    /// Checks that the connection for sharded channels is not silent. Between two pushes it has no
    /// traffic of its own, so the network may drop it without a word.
    pub(crate) async fn confirm(&self) {
        let mut second = self.second.lock().await;
        let Some(known) = &*second else { return };
        let answer = tokio::time::timeout(SILENT_AFTER, async {
            known.connection.send(&redis::cmd("PING")).await
        });
        // Any answer will do.
        let silent =
            answer.await.map_or(true, |answer| answer.is_err_and(|error| error.is_io_error()));
        if silent {
            self.subscribed.store(0, Ordering::SeqCst);
            *second = None;
            self.listener.missed();
        }
    }

    async fn open_sharded(&self, settings: &Settings, address: &Address) -> Result<Sharded, Error> {
        let login = settings.login(ProtocolVersion::RESP3, Instant::now() + self.timeout).await?;
        let ended = Arc::new(AtomicBool::new(false));
        self.subscribed.store(0, Ordering::SeqCst);
        let (listener, subscribed) = (Arc::clone(&self.listener), Arc::clone(&self.subscribed));
        let was_ended = Arc::clone(&ended);
        let end = move || {
            if !was_ended.swap(true, Ordering::SeqCst) {
                subscribed.store(0, Ordering::SeqCst);
                // A waiter that asks again subscribes again, on the node that then serves the slot.
                listener.missed();
            }
        };
        let listener = Arc::clone(&self.listener);
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_push_sender(
            move |push: PushInfo| -> Result<(), ()> {
                match push.kind {
                    PushKind::SMessage => deliver(&push, &*listener),
                    PushKind::SUnsubscribe | PushKind::Disconnection => end(),
                    _ => {}
                }
                Ok(())
            },
        );
        let connection = Socket::open(settings, address, &login, config).await;
        let connection = connection.map_err(|error| error::of_connecting(&error))?;
        Ok(Sharded { connection, ended })
    }

    fn refused(&self, error: &RedisError) -> Error {
        if error.is_io_error() {
            self.dead.store(true, Ordering::SeqCst);
        }
        error::of_connecting(error)
    }

    /// Drops the subscriptions that no waiter needs.
    pub(crate) async fn unsubscribe_if_idle(&self) {
        let subscribed = self.subscribed.load(Ordering::SeqCst);
        if subscribed == 0 {
            return;
        }
        let mut second = self.second.lock().await;
        let buckets = || (0..64).map(Bucket).filter(|bucket| subscribed & bit(*bucket) != 0);
        if let PushPath::Sharded(..) = self.path {
            // A subscription that is not needed costs nothing while another one is.
            self.subscribed.fetch_and(!subscribed, Ordering::SeqCst);
            if buckets().any(|bucket| self.listener.listens(bucket)) {
                self.subscribed.fetch_or(subscribed, Ordering::SeqCst);
            } else {
                *second = None;
            }
            return;
        }
        for bucket in buckets() {
            // A waiter is registered before the bit is read, so one of the two sides sees the
            // other.
            self.subscribed.fetch_and(!bit(bucket), Ordering::SeqCst);
            if self.listener.listens(bucket) {
                self.subscribed.fetch_or(bit(bucket), Ordering::SeqCst);
                continue;
            }
            if let PushPath::Shared(shared) = &self.path {
                let mut connection = shared.clone();
                let leaving = connection.unsubscribe(self.listener.channel(bucket));
                if !matches!(self.limited(leaving).await, Ok(Ok(()))) {
                    self.dead.store(true, Ordering::SeqCst);
                }
            }
        }
    }
}

fn bit(bucket: Bucket) -> u64 {
    1 << bucket.0
}

fn deliver(push: &PushInfo, listener: &dyn PushListener) {
    if let [Value::BulkString(channel), Value::BulkString(payload)] = push.data.as_slice() {
        listener.on_message(channel, payload);
    }
}

/// Handles a push on the connection of the commands.
pub(crate) fn received(push: PushInfo, dead: &AtomicBool, listener: &dyn PushListener) {
    match push.kind {
        PushKind::Message => deliver(&push, listener),
        PushKind::Disconnection => {
            dead.store(true, Ordering::SeqCst);
            listener.missed();
        }
        _ => {}
    }
}
