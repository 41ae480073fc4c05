//! Implements the trait `Backend` with the scripts.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Busy, Cursor, Enqueued, Env as _, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Init, Instant, LockName, LockState, Mode, OwnerId, Page, Quarantined, RecordRead,
    RecordWrite, ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, StoreSettings,
    SystemEnv, WriteOutcome,
};

use crate::{
    backend::{
        admin::Admin,
        batch::{BatchQueue, Job, batch_queue, call_in_batch},
        heartbeat::{HeartbeatAnswer, HeartbeatQueue, heartbeat, heartbeat_queue},
        record,
        renew::renew,
        waiter::{self, RedisWaiter},
    },
    connection::{Connection, PushListener as _},
    keys::{Bucket, Keys},
    scripts::{
        self, Arguments,
        reply::{self, Answer, Reply},
    },
    settings::Settings,
    store::Store,
    waiting::Pushes,
};

/// A store on Redis.
#[derive(Clone)]
pub(crate) struct Redis {
    pub(crate) store: Arc<Store>,
    pushes: Arc<Pushes>,
    /// For each bucket, the calls that may share a script.
    batches: Arc<[BatchQueue]>,
    /// For each bucket, the queue entries whose heartbeat is due.
    heartbeats: Arc<[HeartbeatQueue]>,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.store.settings).finish()
    }
}

impl Redis {
    /// Connects to the servers.
    pub(crate) async fn open(settings: Settings) -> Result<Self, Error> {
        let redis = Self::new(settings, SystemEnv.random());
        redis.store.connect_all().await?;
        Ok(redis)
    }

    /// Makes a store that connects on the first call. `client` is a random number for this client.
    pub(crate) fn new(mut settings: Settings, client: u128) -> Self {
        settings.witness = !settings.topology.fails_over();
        let keys = Keys::in_topology(&settings.prefix, &settings.topology);
        // With WAIT, replicas must acknowledge a pushed grant first. So a push only tells the
        // waiter to ask again.
        let only_rechecks = settings.acknowledgement().is_some();
        let pushes = Arc::new(Pushes::new(&keys, client, only_rechecks));
        let batches = keys.buckets().map(|_| batch_queue()).collect();
        let heartbeats = keys.buckets().map(|_| heartbeat_queue()).collect();
        let listener = Arc::clone(&pushes);
        let store = Arc::new(Store::new(settings, keys, listener));
        Self { store, pushes, batches, heartbeats }
    }

    fn admin(&self) -> Admin<'_> {
        Admin(&self.store)
    }

    fn batches(&self, bucket: Bucket) -> &BatchQueue {
        &self.batches[bucket.index()]
    }

    async fn attempt(&self, request: &Request, channel: &str) -> Result<Reply, Error> {
        let keys = self.store.keys.of(&request.name, request.owner);
        let own = scripts::acquire(request, channel);
        let bucket = self.store.keys.bucket(&request.name);
        let acquire = &scripts::ACQUIRE;
        let asked =
            self.store.run_in_epoch_with_connection(bucket, acquire, &keys, &own, Answer::plain);
        let (answer, connection) = asked.await?;
        let reply = answer.reply.ok_or_else(reply::not_understood)?;
        self.secured(&connection, request, reply).await
    }

    /// The answer to an attempt, once enough replicas have acknowledged the grant. If too few do,
    /// the grant is released.
    pub(super) async fn secured(
        &self,
        connection: &Connection,
        request: &Request,
        reply: Reply,
    ) -> Result<Reply, Error> {
        let (Some(wanted), Reply::Granted(token)) = (self.store.settings.acknowledgement(), &reply)
        else {
            return Ok(reply);
        };
        let Err(error) = connection.acknowledged(wanted).await else { return Ok(reply) };
        let grant = granted(request, *token);
        // If the release fails too, the caller learns that the lock may be held.
        Box::pin(self.free(&grant, ReleaseOptions::default())).await.map_err(|failed| {
            let message = format!("{error}, and the grant could not be given back");
            Error::new(ErrorKind::OutcomeUnknown, message).with_source(failed)
        })?;
        Err(error)
    }

    /// An attempt that wants no queue entry. It shares a batch with others, if there are others.
    async fn plain_attempt(&self, request: &Request) -> Result<Reply, Error> {
        let bucket = self.store.keys.bucket(&request.name);
        // An attempt of a waiter that has a queue entry is its heartbeat, and it finds a queue. So
        // it does not fit in a batch.
        let queued = self.pushes.listens(bucket) && self.pushes.has(request.owner);
        let reader = request.mode == Mode::Shared;
        // A reader's attempt needs its own script: readers may be let in while others read.
        if queued
            && !reader
            && let Some(busy) = Box::pin(self.heartbeat(bucket, request)).await?
        {
            return Ok(Reply::Busy { busy, queued });
        }
        // WAIT covers the writes of one caller only, so a batch would not do.
        let waits = self.store.settings.acknowledgement().is_some();
        if queued || waits || reader || request.floor != FencingToken::ZERO {
            return self.attempt(request, "").await;
        }
        let alone = self.batches(bucket).alone();
        if alone.is_none() {
            let job = Job::attempt(&self.store.keys, request);
            if let Some(token) = call_in_batch(&self.store, self.batches(bucket), job).await? {
                let token = FencingToken::new(token).ok_or_else(reply::not_understood)?;
                return Ok(Reply::Granted(token));
            }
        }
        self.attempt(request, "").await
    }

    /// What is known of an entry that exists and whose lock others hold. `None` if the entry needs
    /// an attempt of its own.
    async fn heartbeat(&self, bucket: Bucket, request: &Request) -> Result<Option<Busy>, Error> {
        let sent = SystemEnv.now();
        let known = self.pushes.known(request.owner, sent);
        let (queue, channel) = (&self.heartbeats[bucket.index()], self.pushes.channel(bucket));
        let answer = heartbeat(&self.store, queue, request, channel, known.is_none()).await?;
        let mut busy = match answer {
            HeartbeatAnswer::Exists => known,
            HeartbeatAnswer::Busy(busy) => {
                self.pushes.note_busy(request.owner, &busy, sent);
                Some(busy)
            }
            HeartbeatAnswer::NeedsAttempt => None,
        };
        if let Some(busy) = &mut busy {
            busy.retry_after = self.pushes.until_heartbeat(request.owner, SystemEnv.now());
        }
        Ok(busy)
    }

    /// Records the server's answer about a queue entry: the entry is lost, or when its next
    /// heartbeat is due.
    fn note_answer(&self, owner: OwnerId, busy: &Busy, queued: bool) {
        match queued {
            true => self.pushes.note_retry(owner, busy.retry_after),
            false => self.pushes.lost(owner),
        }
    }

    pub(super) fn failed(&self, reply: Reply) -> Error {
        reply.into_error(self.store.agreed().longest_lease)
    }

    async fn enqueue_request(&self, request: &Request) -> Result<Enqueued, Error> {
        self.store.guarantees.check_policy()?;
        // The waiter is registered first, so that no push can arrive before it.
        let waiter = RedisWaiter::enter(&self.store, &self.pushes, request);
        let bucket = self.store.keys.bucket(&request.name);
        let reply = self.attempt(request, self.pushes.channel(bucket)).await?;
        self.enqueued(request, waiter, reply)
    }

    fn enqueued(
        &self,
        request: &Request,
        waiter: Box<RedisWaiter>,
        reply: Reply,
    ) -> Result<Enqueued, Error> {
        match reply {
            Reply::Granted(token) => Ok(Enqueued::Granted(granted(request, token))),
            Reply::Quarantined(quarantined) => Ok(Enqueued::Quarantined(quarantined)),
            Reply::Busy { busy, queued } => {
                self.note_answer(request.owner, &busy, queued);
                Ok(Enqueued::Waiting(waiter, busy))
            }
            other => Err(self.failed(other)),
        }
    }

    async fn free(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        // An error of the next request is reported when that request is sent again on its own.
        let next = options.next.filter(|_| self.store.guarantees.check_policy().is_ok());
        let options = options.with_next(next);
        let bucket = self.store.keys.bucket(&grant.name);
        // A reader's release needs its own script.
        let plain =
            grant.mode == Mode::Exclusive && options.keep.is_none() && options.next.is_none();
        let alone = if plain { self.batches(bucket).alone() } else { None };
        if plain && alone.is_none() {
            let job = Job::release(&self.store.keys, grant);
            if let Some(held) = call_in_batch(&self.store, self.batches(bucket), job).await? {
                return Ok(Released::plain(outcome(held == 1)));
            }
        }
        let waiter = options.next.map(|next| RedisWaiter::enter(&self.store, &self.pushes, next));
        let next_owner = options.next.map_or(grant.owner, |next| next.owner);
        let keys = self.store.keys.of(&grant.name, next_owner);
        // Without a next request no tombstone needs checking.
        let keys = if options.next.is_some() { &keys[..] } else { &keys[..4] };
        let channel = self.pushes.channel(bucket);
        let next = options.next.map(|request| (request, channel));
        let own = scripts::release(grant.owner, options.keep, next);
        let release = &scripts::RELEASE;
        let read = Answer::of_release;
        let freed = self.store.run_in_epoch_with_connection(bucket, release, keys, &own, read);
        let (answer, connection) = freed.await?;
        let outcome = outcome(answer.first == Some(1));
        let next = match (options.next, waiter, answer.reply) {
            // If the next request was refused, the core sends it again on its own.
            (Some(request), Some(waiter), Some(reply)) => {
                match self.secured(&connection, request, reply).await {
                    // The next request may hold the lock now. The core repeats the whole call and
                    // so learns the outcome.
                    Err(error) if error.is_ambiguous() => return Err(error),
                    reply => reply.and_then(|reply| self.enqueued(request, waiter, reply)).ok(),
                }
            }
            _ => None,
        };
        Ok(Released::new(outcome, next))
    }
}

/// The mode is the requested one. A client of an older version may have handed a reader the whole
/// lock; every script treats that in the same way.
pub(super) fn granted(request: &Request, token: FencingToken) -> Grant {
    Grant::new(request, token).with_mode(request.mode)
}

fn outcome(held: bool) -> ReleaseOutcome {
    if held { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld }
}

#[async_trait]
impl Backend for Redis {
    fn kind(&self) -> &'static str {
        "redis"
    }

    async fn identity(&self) -> Result<String, Error> {
        self.admin().name_of_store().await.map_err(|error| error.at("redis", "identity"))
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.store.promised()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let asked = async {
            self.store.guarantees.check_policy()?;
            match self.plain_attempt(request).await? {
                Reply::Granted(token) => Ok(Attempt::Granted(granted(request, token))),
                Reply::Busy { busy, queued } => {
                    self.note_answer(request.owner, &busy, queued);
                    Ok(Attempt::Busy(busy))
                }
                Reply::Quarantined(quarantined) => Ok(Attempt::Quarantined(quarantined)),
                other => Err(self.failed(other)),
            }
        };
        asked.await.map_err(|error: Error| error.at("redis", "acquire").on(&request.name))
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let entry = self.enqueue_request(request).await;
        entry.map_err(|error| error.at("redis", "enqueue").on(&request.name))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        waiter::abandon(&self.store, request).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        renew(&self.store, grants, sent).await
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let released = self.free(grant, options).await;
        released.map_err(|error| error.at("redis", "release").on(&grant.name))
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let (name, owner) = (&grant.name, grant.owner);
        let own = scripts::raise(owner, token);
        let asked = async {
            let answer = self.store.run_for(name, owner, &scripts::RAISE, &own, Answer::plain);
            match answer.await?.reply {
                Some(Reply::Word(word)) if word == "raised" => Ok(()),
                Some(other) => Err(self.failed(other)),
                None => Err(reply::not_understood()),
            }
        };
        asked.await.map_err(|error: Error| error.at("redis", "raise").on(name))
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        self.hand_over(grant, request).await
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        let read = record::read(&self.store, name).await;
        read.map_err(|error| error.at("redis", "read-record").on(name))
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let written = record::write(&self.store, grant, write).await;
        written.map_err(|error| error.at("redis", "write-record").on(&grant.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let state =
            self.admin().states(self.store.keys.bucket(name), std::slice::from_ref(name)).await;
        Ok(state.map_err(|error| error.at("redis", "inspect").on(name))?.pop())
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.admin().page(from).await.map_err(|error| error.at("redis", "list"))
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        let (nobody, own) = (OwnerId::from_bits(0), Arguments::default());
        let answer = self.store.run_for(name, nobody, &scripts::FORCE, &own, Answer::number).await;
        let answer = answer.map_err(|error| error.at("redis", "force-release").on(name))?;
        Ok(outcome(answer.first == Some(1)))
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.admin().quarantine().await.map_err(|error| error.at("redis", "check"))
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.admin().set_up(init).await.map_err(|error| error.at("redis", "init"))
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        let mark = self.admin().highest_mark().await.map(Some);
        mark.map_err(|error| error.at("redis", "highest-token"))
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        self.admin().clock_difference().await.map(Some).map_err(|error| error.at("redis", "clock"))
    }

    async fn close(&self) {
        self.store.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::OwnerLabel;

    use super::*;
    use crate::RedisBuilder;

    #[test]
    fn rare_cases_do_not_make_every_call_large() {
        let redis = Redis::new(RedisBuilder::tcp("127.0.0.1", 1).settings, 1);
        let (name, label) = (LockName::new("a").unwrap(), OwnerLabel::new("x").unwrap());
        let span = Duration::from_secs(1);
        let request = Request::new(name, OwnerId::from_bits(1), label, span, Instant::default());
        let grant = Grant::new(&request, FencingToken::ZERO);
        let attempt = size_of_val(&redis.plain_attempt(&request));
        let release = size_of_val(&redis.free(&grant, ReleaseOptions::default()));
        assert!(attempt < 5_000 && release < 5_000, "{attempt} and {release} bytes");
    }
}
