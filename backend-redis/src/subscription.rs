//! How pushes reach this process.
//!
//! With RESP3 they come on the connection of the commands, otherwise on a second one. Sharded channels
//! always have a second one: a server that gives a slot away ends their subscriptions of its own
//! accord, and the driver would take that message for the answer to the oldest command.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use lock_core::{Error, ErrorKind};
use redis::{Client, PushInfo, PushKind, RedisError, Value, aio::MultiplexedConnection};
use tokio::task::AbortHandle;

use crate::{error, keys::Bucket, pushes::Pushes};

/// The subscriptions of one connection.
#[derive(Debug)]
pub(crate) struct Listening {
    client: Client,
    /// The connection of the commands, where pushes come on it.
    shared: Option<MultiplexedConnection>,
    /// Set when pushes can be missed: the next caller then makes a new connection.
    dead: Arc<AtomicBool>,
    pushes: Arc<Pushes>,
    timeout: Duration,
    /// A bit for each bucket.
    subscribed: AtomicU64,
    /// Serialises subscribing; holds the second connection's task.
    second: tokio::sync::Mutex<Option<AbortHandle>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(task) = self.second.get_mut().take() {
            task.abort();
        }
    }
}

impl Listening {
    pub(crate) fn new(
        client: Client,
        shared: Option<MultiplexedConnection>,
        dead: Arc<AtomicBool>,
        pushes: Arc<Pushes>,
        timeout: Duration,
    ) -> Self {
        let (subscribed, second) = (AtomicU64::new(0), tokio::sync::Mutex::new(None));
        Self { client, shared, dead, pushes, timeout, subscribed, second }
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
        if let Some(shared) = &self.shared {
            let mut connection = shared.clone();
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
            *second = Some(listening.abort_handle());
        }
        self.subscribed.fetch_or(bit(bucket), Ordering::SeqCst);
        Ok(())
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
        for bucket in (0..64).map(Bucket).filter(|bucket| subscribed & bit(*bucket) != 0) {
            // A place is entered before the bit is read, so one of the two sees the other.
            self.subscribed.fetch_and(!bit(bucket), Ordering::SeqCst);
            if self.pushes.waits_in(bucket) {
                self.subscribed.fetch_or(bit(bucket), Ordering::SeqCst);
                continue;
            }
            match (second.take(), &self.shared) {
                (Some(task), _) => task.abort(),
                (None, Some(shared)) => {
                    let mut connection = shared.clone();
                    let leaving = connection.unsubscribe(self.pushes.channel(bucket));
                    if !matches!(self.limited(leaving).await, Ok(Ok(()))) {
                        self.dead.store(true, Ordering::SeqCst);
                    }
                }
                (None, None) => {}
            }
        }
    }
}

fn bit(bucket: Bucket) -> u64 {
    1 << bucket.0
}

/// What a server sent of its own accord.
pub(crate) fn received(push: PushInfo, dead: &AtomicBool, pushes: &Pushes) {
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
