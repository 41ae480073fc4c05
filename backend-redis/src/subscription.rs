//! How pushes reach this process.
//!
//! They come on the connection of the commands. Sharded channels have a second one: a server that gives a
//! slot away ends their subscriptions of its own accord, and the driver would take that message for the
//! answer to the oldest command.

use std::{
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

use crate::{
    connection::Connection, error, keys::Bucket, pushes::Pushes, settings::Settings,
    topology::Place,
};

/// On which connection pushes come.
pub(crate) enum Way {
    /// That of the commands.
    Shared(MultiplexedConnection),
    /// One of its own to this place, for sharded channels.
    Sharded(Box<Settings>, Place),
}

/// The subscriptions beside one connection.
pub(crate) struct Listening {
    way: Way,
    /// Set when pushes can be missed: the next caller then makes a new connection.
    dead: Arc<AtomicBool>,
    pushes: Arc<Pushes>,
    timeout: Duration,
    /// A bit for each bucket.
    subscribed: Arc<AtomicU64>,
    /// Serialises subscribing.
    second: tokio::sync::Mutex<Option<Sharded>>,
}

/// The connection of sharded channels.
struct Sharded {
    connection: Connection,
    /// The server has ended a subscription: the connection is used no more.
    ended: Arc<AtomicBool>,
}

impl Listening {
    pub(crate) fn new(
        way: Way,
        dead: Arc<AtomicBool>,
        pushes: Arc<Pushes>,
        timeout: Duration,
    ) -> Self {
        Self { way, dead, pushes, timeout, subscribed: Arc::default(), second: Default::default() }
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
        let channel = self.pushes.channel(bucket);
        match &self.way {
            Way::Shared(shared) => {
                let mut connection = shared.clone();
                let done = self.limited(connection.subscribe(channel)).await?;
                done.map_err(|error| self.refused(&error))?;
            }
            Way::Sharded(settings, place) => {
                let done =
                    self.limited(self.subscribe_sharded(settings, place, &mut second, channel));
                match done.await? {
                    Ok(()) => {}
                    // The slot is elsewhere, as the script will learn.
                    Err(error) if error.redirect_node().is_some() => return Ok(()),
                    Err(error) => return Err(error::of_connecting(&error)),
                }
            }
        }
        self.subscribed.fetch_or(bit(bucket), Ordering::SeqCst);
        // One that ended before this bit was set has not cleared it, and one that ends later does.
        if let Some(Sharded { ended, .. }) = &*second
            && ended.load(Ordering::SeqCst)
        {
            self.subscribed.fetch_and(!bit(bucket), Ordering::SeqCst);
        }
        Ok(())
    }

    async fn subscribe_sharded(
        &self,
        settings: &Settings,
        place: &Place,
        second: &mut Option<Sharded>,
        channel: &str,
    ) -> Result<(), RedisError> {
        second.take_if(|known| known.ended.load(Ordering::SeqCst));
        let known = match second {
            Some(known) => known,
            None => second.insert(self.open_sharded(settings, place).await?),
        };
        let mut subscribe = redis::cmd("SSUBSCRIBE");
        known.connection.send(subscribe.arg(channel)).await?.extract_error()?;
        Ok(())
    }

    async fn open_sharded(
        &self,
        settings: &Settings,
        place: &Place,
    ) -> Result<Sharded, RedisError> {
        let ended = Arc::new(AtomicBool::new(false));
        self.subscribed.store(0, Ordering::SeqCst);
        let (pushes, subscribed) = (Arc::clone(&self.pushes), Arc::clone(&self.subscribed));
        let told = Arc::clone(&ended);
        let end = move || {
            if !told.swap(true, Ordering::SeqCst) {
                subscribed.store(0, Ordering::SeqCst);
                // Whoever asks again subscribes again, where the slot is then.
                pushes.recheck_all();
            }
        };
        let pushes = Arc::clone(&self.pushes);
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_push_sender(
            move |push: PushInfo| -> Result<(), ()> {
                match push.kind {
                    PushKind::SMessage => deliver(&push, &pushes),
                    PushKind::SUnsubscribe | PushKind::Disconnection => end(),
                    _ => {}
                }
                Ok(())
            },
        );
        let login = settings.login(ProtocolVersion::RESP3);
        let connection = Connection::open(settings, place, &login, config).await?;
        Ok(Sharded { connection, ended })
    }

    fn refused(&self, error: &RedisError) -> Error {
        if error.is_io_error() {
            self.dead.store(true, Ordering::SeqCst);
        }
        error::of_connecting(error)
    }

    /// Drops the subscriptions for which nobody waits.
    pub(crate) async fn unsubscribe_if_idle(&self) {
        let subscribed = self.subscribed.load(Ordering::SeqCst);
        if subscribed == 0 {
            return;
        }
        let mut second = self.second.lock().await;
        let buckets = || (0..64).map(Bucket).filter(|bucket| subscribed & bit(*bucket) != 0);
        if let Way::Sharded(..) = self.way {
            // One that is not needed costs nothing while another one is.
            self.subscribed.fetch_and(!subscribed, Ordering::SeqCst);
            if buckets().any(|bucket| self.pushes.waits_in(bucket)) {
                self.subscribed.fetch_or(subscribed, Ordering::SeqCst);
            } else {
                *second = None;
            }
            return;
        }
        for bucket in buckets() {
            // A place is entered before the bit is read, so one of the two sees the other.
            self.subscribed.fetch_and(!bit(bucket), Ordering::SeqCst);
            if self.pushes.waits_in(bucket) {
                self.subscribed.fetch_or(bit(bucket), Ordering::SeqCst);
                continue;
            }
            if let Way::Shared(shared) = &self.way {
                let mut connection = shared.clone();
                let leaving = connection.unsubscribe(self.pushes.channel(bucket));
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

fn deliver(push: &PushInfo, pushes: &Pushes) {
    if let Some(Value::BulkString(payload)) = push.data.get(1) {
        pushes.deliver(payload);
    }
}

/// What a server sent of its own accord on the connection of the commands.
pub(crate) fn received(push: PushInfo, dead: &AtomicBool, pushes: &Pushes) {
    match push.kind {
        PushKind::Message => deliver(&push, pushes),
        PushKind::Disconnection => {
            dead.store(true, Ordering::SeqCst);
            pushes.recheck_all();
        }
        _ => {}
    }
}
