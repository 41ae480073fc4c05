//! The trait, in terms of scripts.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant, Guarantees, Init,
    Instant, LockName, LockState, LossReason, Outcome, Page, Release, Released, Renewal, Request,
    StoreSettings,
};

use crate::{
    batch::Job,
    error,
    keys::Bucket,
    link::Link,
    pushes::Pushes,
    reply::{self, Reply},
    scripts,
    store::{Answer, Store},
    turn::Place,
};

/// A connection to a store on one Redis; clones share it.
#[derive(Clone)]
pub(crate) struct Redis(pub(crate) Arc<Store>);

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.0.settings).finish()
    }
}

/// How many renewals go into one script call: a script holds the whole server up.
const BATCH: usize = 200;

pub(crate) fn millis(span: Duration) -> String {
    // Rounded up: a lease is never shorter than its holder believes.
    span.as_nanos().div_ceil(1_000_000).max(1).to_string()
}

impl Redis {
    pub(crate) fn pushes(&self) -> &Pushes {
        &self.0.pushes
    }

    async fn attempt(&self, request: &Request, channel: &str) -> Result<Reply, Error> {
        let keys = self.0.keys.of(&request.name, request.owner);
        let (owner, lease) = (request.owner.to_string(), millis(request.lease));
        let floor = request.floor.to_string();
        let own: [&[u8]; 5] = [
            owner.as_bytes(),
            lease.as_bytes(),
            request.label.as_str().as_bytes(),
            floor.as_bytes(),
            channel.as_bytes(),
        ];
        let trivial = channel.is_empty() && request.floor == FencingToken::ZERO;
        let own = if trivial { &own[..3] } else { &own };
        let bucket = self.0.keys.bucket(&request.name);
        let acquire = &scripts::ACQUIRE;
        let asked = self.0.run_in_epoch_somewhere(bucket, acquire, &keys, own, Answer::plain);
        let (answer, link) = asked.await?;
        let reply = answer.reply.ok_or_else(reply::not_understood)?;
        self.secured(&link, request, reply).await
    }

    /// The answer to an attempt, when enough replicas have what it was granted; otherwise that is given
    /// back.
    async fn secured(&self, link: &Link, request: &Request, reply: Reply) -> Result<Reply, Error> {
        let (Some(wanted), Reply::Granted(token)) = (self.0.settings.acknowledgement(), &reply)
        else {
            return Ok(reply);
        };
        let Err(error) = link.acknowledged(wanted).await else { return Ok(reply) };
        let grant = Grant::new(request, *token);
        // Where it cannot be given back, whoever asked knows that it may be held.
        Box::pin(self.free(&grant, Release::default())).await.map_err(|failed| {
            let message = format!("{error}, and the grant could not be given back");
            Error::new(ErrorKind::OutcomeUnknown, message).with_source(failed)
        })?;
        Err(error)
    }

    /// An attempt that wants no place: in a batch with others, if there are others.
    async fn plain_attempt(&self, request: &Request) -> Result<Reply, Error> {
        let bucket = self.0.keys.bucket(&request.name);
        // Who has a place comes to be heard of, and finds a queue.
        let placed = self.pushes().waits_in(bucket) && self.pushes().has(request.owner);
        // Who waits for replicas learns of its own write only.
        let waits = self.0.settings.acknowledgement().is_some();
        if placed || waits || request.floor != FencingToken::ZERO {
            return self.attempt(request, "").await;
        }
        let alone = self.0.gathering(bucket).alone();
        if alone.is_none() {
            let job = Job::attempt(&self.0.keys, request);
            if let Some(token) = self.0.gather(bucket, job).await? {
                let token = FencingToken::new(token).ok_or_else(reply::not_understood)?;
                return Ok(Reply::Granted(token));
            }
        }
        self.attempt(request, "").await
    }

    fn failed(&self, reply: Reply) -> Error {
        reply.into_error(self.0.agreed().longest)
    }

    async fn place(&self, request: &Request) -> Result<Enqueued, Error> {
        self.0.promises.check_policy()?;
        // Entered first, so that no push comes too early.
        let turn = self.turn(request);
        let bucket = self.0.keys.bucket(&request.name);
        let reply = self.attempt(request, self.pushes().channel(bucket)).await?;
        self.enqueued(request, turn, reply)
    }

    fn turn(&self, request: &Request) -> Box<Place> {
        let (number, signals) = self.pushes().enter(self.0.keys.bucket(&request.name), request);
        Box::new(Place { redis: self.clone(), request: request.clone(), number, signals })
    }

    fn enqueued(
        &self,
        request: &Request,
        turn: Box<Place>,
        reply: Reply,
    ) -> Result<Enqueued, Error> {
        match reply {
            Reply::Granted(token) => Ok(Enqueued::Granted(Grant::new(request, token))),
            Reply::Quarantined(quarantined) => Ok(Enqueued::Quarantined(quarantined)),
            Reply::Busy { busy, placed } => {
                if !placed {
                    self.pushes().lost(request.owner);
                }
                Ok(Enqueued::Waiting(turn, busy))
            }
            other => Err(self.failed(other)),
        }
    }

    async fn free(&self, grant: &Grant, how: Release<'_>) -> Result<Released, Error> {
        // What is wrong with the next request is told when it asks for itself.
        let next = how.next.filter(|_| self.0.promises.check_policy().is_ok());
        let how = Release { next, ..how };
        let bucket = self.0.keys.bucket(&grant.name);
        let plain = how.keep.is_none() && how.next.is_none();
        let alone = if plain { self.0.gathering(bucket).alone() } else { None };
        if plain && alone.is_none() {
            let job = Job::release(&self.0.keys, grant);
            if let Some(held) = self.0.gather(bucket, job).await? {
                return Ok(Released::plain(outcome(held == 1)));
            }
        }
        let turn = how.next.map(|next| self.turn(next));
        let next_owner = how.next.map_or(grant.owner, |next| next.owner);
        let keys = self.0.keys.of(&grant.name, next_owner);
        // Without a next request there is no tombstone to look for.
        let keys = if how.next.is_some() { &keys[..] } else { &keys[..4] };
        let owner = grant.owner.to_string();
        let keep = how.keep.map(millis).unwrap_or_default();
        let next = how.next.map(|next| {
            (next.owner.to_string(), millis(next.lease), next.floor.to_string(), &next.label)
        });
        let own: &[&[u8]] = match &next {
            Some((next, lease, floor, label)) => &[
                owner.as_bytes(),
                keep.as_bytes(),
                next.as_bytes(),
                lease.as_bytes(),
                label.as_str().as_bytes(),
                floor.as_bytes(),
                self.pushes().channel(bucket).as_bytes(),
            ],
            None if how.keep.is_some() => {
                &[owner.as_bytes(), keep.as_bytes(), b"", b"", b"", b"", b""]
            }
            None => &[owner.as_bytes()],
        };
        let release = &scripts::RELEASE;
        let read = Answer::after_number;
        let freed = self.0.run_in_epoch_somewhere(bucket, release, keys, own, read);
        let (answer, link) = freed.await?;
        let outcome = outcome(answer.first == Some(1));
        let next = match (how.next, turn, answer.reply) {
            // With what stood in its way, the core asks on its own.
            (Some(request), Some(turn), Some(reply)) => {
                match self.secured(&link, request, reply).await {
                    // It may hold the lock: the core repeats all, and is told.
                    Err(error) if error.is_ambiguous() => return Err(error),
                    reply => reply.and_then(|reply| self.enqueued(request, turn, reply)).ok(),
                }
            }
            _ => None,
        };
        Ok(Released { outcome, next })
    }

    /// `longest`: the store's longest lease, if it has been read since `sent`. Otherwise the script reads it.
    async fn renew_batch(
        &self,
        bucket: Bucket,
        grants: &[&Grant],
        sent: Instant,
        longest: Option<Duration>,
    ) -> Vec<Renewal> {
        let mut keys: Vec<_> = grants.iter().map(|grant| self.0.keys.lock(&grant.name)).collect();
        if longest.is_none() {
            keys.push(self.0.keys.epoch(bucket));
        }
        let lease = |grant: &Grant| grant.lease.min(longest.unwrap_or(Duration::MAX));
        let words: Vec<_> = grants
            .iter()
            .flat_map(|grant| [grant.owner.to_string(), millis(lease(grant))])
            .collect();
        let arguments: Vec<_> = words.iter().map(String::as_bytes).collect();
        let asked = async {
            // Nothing rests on a handshake that is too old.
            self.0.link(bucket).await?.handshake().await?;
            let renew = self.0.run_undivided(bucket, &scripts::RENEW, &keys, &arguments);
            let (answer, link) = renew.await?;
            let mut answers = reply::list(answer)?;
            let said = answers.pop().as_ref().map(reply::number).transpose()?;
            // What the record says now, or nothing where it is gone.
            let said = said.filter(|micros| *micros > 0).map(Duration::from_micros);
            let acknowledged = match self.0.settings.acknowledgement() {
                Some(wanted) => link.acknowledged(wanted).await,
                None => Ok(()),
            };
            Ok((answers, acknowledged, said))
        };
        let (answers, acknowledged, said) = match asked.await {
            Ok(answers) if answers.0.len() == grants.len() => answers,
            Ok(_) => return unknown(grants, &reply::not_understood()),
            Err(error) if error::is_divided(&error) && longest.is_none() => {
                // Each key by itself is in one place or the other, that of the epoch record too.
                let longest = match self.0.stored(bucket).await {
                    Ok(stored) => stored.unwrap_or_else(|| self.0.agreed()).longest,
                    Err(error) => return unknown(grants, &error),
                };
                let one = |grant| {
                    self.renew_batch(bucket, std::slice::from_ref(grant), sent, Some(longest))
                };
                let each = futures_util::future::join_all(grants.iter().map(one));
                return Box::pin(each).await.into_iter().flatten().collect();
            }
            Err(error) => return unknown(grants, &error),
        };
        let read = |(grant, answer): (&&Grant, _)| match reply::number(&answer) {
            Ok(1) => match &acknowledged {
                Ok(()) => {
                    let lease = lease(grant).min(said.unwrap_or(Duration::MAX));
                    Renewal::Renewed { from: sent, lease }
                }
                Err(error) => Renewal::Unknown(error.clone().at("redis", "renew").on(&grant.name)),
            },
            Ok(2) => Renewal::Lost(LossReason::TakenOver),
            Ok(0) => Renewal::Lost(LossReason::Gone),
            _ => Renewal::Unknown(reply::not_understood().at("redis", "renew").on(&grant.name)),
        };
        grants.iter().zip(answers).map(read).collect()
    }
}

fn outcome(held: bool) -> Outcome {
    if held { Outcome::Released } else { Outcome::NotHeld }
}

fn unknown(grants: &[&Grant], error: &Error) -> Vec<Renewal> {
    let told =
        |grant: &&Grant| Renewal::Unknown(error.clone().at("redis", "renew").on(&grant.name));
    grants.iter().map(told).collect()
}

#[async_trait]
impl Backend for Redis {
    fn kind(&self) -> &'static str {
        "redis"
    }

    async fn identity(&self) -> Result<String, Error> {
        self.name_of_store().await.map_err(|error| error.at("redis", "identity"))
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.0.promised()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let asked = async {
            self.0.promises.check_policy()?;
            match self.plain_attempt(request).await? {
                Reply::Granted(token) => Ok(Attempt::Granted(Grant::new(request, token))),
                Reply::Busy { busy, placed } => {
                    if !placed {
                        self.pushes().lost(request.owner);
                    }
                    Ok(Attempt::Busy(busy))
                }
                Reply::Quarantined(quarantined) => Ok(Attempt::Quarantined(quarantined)),
                other => Err(self.failed(other)),
            }
        };
        asked.await.map_err(|error: Error| error.at("redis", "acquire").on(&request.name))
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let place = self.place(request).await;
        place.map_err(|error| error.at("redis", "enqueue").on(&request.name))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let keys = self.0.keys.of(&request.name, request.owner);
        let owner = request.owner.to_string();
        let bucket = self.0.keys.bucket(&request.name);
        let asked = self
            .0
            .run_in_epoch(bucket, &scripts::ABANDON, &keys, &[owner.as_bytes()], Answer::number)
            .await;
        asked.map_err(|error| error.at("redis", "abandon").on(&request.name))?;
        Ok(())
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let mut buckets = BTreeMap::<_, Vec<usize>>::new();
        for (at, grant) in grants.iter().enumerate() {
            buckets.entry(self.0.keys.bucket(&grant.name)).or_default().push(at);
        }
        let chunks = buckets.iter().flat_map(|(bucket, places)| {
            places.chunks(BATCH).map(move |places| async move {
                let batch: Vec<_> = places.iter().map(|at| grants[*at]).collect();
                let answers = self.renew_batch(*bucket, &batch, sent, None).await;
                places.iter().copied().zip(answers).collect::<Vec<_>>()
            })
        });
        // All at once: one that hangs takes no time from the others.
        let answers = futures_util::future::join_all(chunks).await;
        let answers: BTreeMap<_, _> = answers.into_iter().flatten().collect();
        answers.into_values().collect()
    }

    async fn release(&self, grant: &Grant, how: Release<'_>) -> Result<Released, Error> {
        let released = self.free(grant, how).await;
        released.map_err(|error| error.at("redis", "release").on(&grant.name))
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let keys = self.0.keys.of(&grant.name, grant.owner);
        let (owner, token) = (grant.owner.to_string(), token.to_string());
        let own: [&[u8]; 2] = [owner.as_bytes(), token.as_bytes()];
        let bucket = self.0.keys.bucket(&grant.name);
        let asked = async {
            let raise = self.0.run_in_epoch(bucket, &scripts::RAISE, &keys, &own, Answer::plain);
            let answer = raise.await?;
            match answer.reply {
                Some(Reply::Word(word)) if word == "raised" => Ok(()),
                Some(other) => Err(self.failed(other)),
                None => Err(reply::not_understood()),
            }
        };
        asked.await.map_err(|error: Error| error.at("redis", "raise").on(&grant.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let state = self.look(self.0.keys.bucket(name), std::slice::from_ref(name)).await;
        Ok(state.map_err(|error| error.at("redis", "inspect").on(name))?.pop())
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.page(from).await.map_err(|error| error.at("redis", "list"))
    }

    async fn force_release(&self, name: &LockName) -> Result<Outcome, Error> {
        let keys = self.0.keys.of(name, lock_core::OwnerId::from_bits(0));
        let bucket = self.0.keys.bucket(name);
        let answer = self.0.run_in_epoch(bucket, &scripts::FORCE, &keys, &[], Answer::number).await;
        let answer = answer.map_err(|error| error.at("redis", "force-release").on(name))?;
        Ok(outcome(answer.first == Some(1)))
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.set_up(init).await.map_err(|error| error.at("redis", "init"))
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        self.highest_mark().await.map(Some).map_err(|error| error.at("redis", "highest-token"))
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        self.clock_difference().await.map(Some).map_err(|error| error.at("redis", "clock"))
    }

    async fn close(&self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{OwnerId, OwnerLabel};

    use super::*;
    use crate::{RedisBuilder, keys::Keys};

    #[test]
    fn what_seldom_happens_does_not_make_every_call_large() {
        let keys = Keys::new("x");
        let pushes = Pushes::new(&keys, 1);
        let store = Store::new(RedisBuilder::tcp("127.0.0.1", 1).settings, keys, pushes);
        let redis = Redis(Arc::new(store));
        let (name, label) = (LockName::new("a").unwrap(), OwnerLabel::new("x").unwrap());
        let span = Duration::from_secs(1);
        let request = Request::new(name, OwnerId::from_bits(1), label, span, Instant::default());
        let grant = Grant::new(&request, FencingToken::ZERO);
        let attempt = size_of_val(&redis.plain_attempt(&request));
        let release = size_of_val(&redis.free(&grant, Release::default()));
        assert!(attempt < 5_000 && release < 5_000, "{attempt} and {release} bytes");
    }
}
