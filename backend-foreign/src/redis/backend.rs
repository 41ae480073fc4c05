//! The trait `Backend`: each operation is one script.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use backend_redis::{
    RedisBuilder,
    node::{Listener, Node, Value, list, not_understood, number, text},
};
use lock_core::{
    Attempt, Backend, Busy, Cursor, Enqueued, Env as _, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Holder, Init, Instant, LockName, LockState, LossReason, Mode, OwnerId, OwnerLabel,
    Page, Quarantined, ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, StoreSettings,
    SystemEnv, jittered, whole_millis,
};

use super::{
    guarantees,
    layout::Layout,
    scripts::{self, Lock},
    waiting::{PollingWaiter, SubscribedWaiter, Waiters},
};
use crate::{
    record,
    tunables::{BACKING_POLL, POLL, RENEWALS},
};

/// The locks of another library in a single Redis.
#[derive(Debug)]
pub(super) struct Foreign {
    node: Node,
    layout: Layout,
    waiters: Arc<Waiters>,
}

impl Foreign {
    /// Connects.
    pub(super) async fn open(builder: RedisBuilder, layout: Layout) -> Result<Self, Error> {
        let waiters = Arc::new(Waiters::default());
        let listener: Arc<dyn Listener> = Arc::clone(&waiters) as _;
        let node = Node::new(builder, SystemEnv.random(), listener)?;
        // The first call compares the settings with those of the store.
        node.scan(0).await?;
        Ok(Self { node, layout, waiters })
    }

    fn lock<'a>(&'a self, name: &'a LockName) -> Result<Lock<'a>, Error> {
        Lock::new(&self.node, &self.layout, name)
    }

    async fn attempt(&self, request: &Request) -> Result<Attempt, Error> {
        if request.mode != Mode::Exclusive {
            let message = "locks of another library are exclusive";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let lock = self.lock(&request.name)?;
        // The connection may have changed since the waiter subscribed.
        if let Some((channel, _)) = &lock.keys.channel
            && self.waiters.has_any(channel)
        {
            self.node.subscribe(channel).await?;
        }
        let (owner, floor) = (request.owner.to_string(), request.floor.to_string());
        let lease = whole_millis(request.lease).to_string();
        let own = [&owner, &lease, request.label.as_str(), &floor, self.layout.token.word()];
        let answer = list(lock.run(&scripts::ACQUIRE, request.owner, &own).await?)?;
        let part = |at: usize| answer.get(at).ok_or_else(not_understood);
        let longest = humantime::format_duration(self.node.agreed_settings().longest_lease);
        let refuse = |message| Err(Error::new(ErrorKind::InvalidInput, message));
        match text(part(0)?)? {
            "granted" => Ok(Attempt::Granted(Grant::new(request, token(part(1)?)?))),
            "busy" => {
                let state = self.state(&request.name, &answer[1..])?;
                let left = state.holder.as_ref().map_or(Duration::ZERO, |holder| holder.remaining);
                Ok(Attempt::Busy(Busy::new(state.holder, state.token, self.pause(left))))
            }
            "rest" => {
                let left = Duration::from_millis(number(part(1)?)?);
                Ok(Attempt::Busy(Busy::new(
                    None,
                    token(part(2)?)?,
                    left + Duration::from_millis(1),
                )))
            }
            "quarantine" => {
                let remaining = Duration::from_micros(number(part(1)?)?);
                Ok(Attempt::Quarantined(Quarantined::new(remaining, text(part(2)?)?)))
            }
            "floor" => refuse(floor_message(number(part(1)?)?)),
            "lease" => refuse(format!(
                "the lease is above this store's longest lease; must be at most {longest}"
            )),
            "late" => Err(Error::new(
                ErrorKind::Unavailable,
                "the request reached the server after its deadline, and took nothing",
            )),
            "exhausted" => Err(Error::new(
                ErrorKind::Config,
                format!(
                    "the fencing tokens are used up, since the key {:?} or the store's highest token is at the limit; \
                     remove the key, and set the tokens back with `leasehold init --reset-tokens`",
                    lock.keys.token
                ),
            )),
            _ => Err(not_understood()),
        }
    }

    /// When a waiter tries again, if the holder's lease ends after `left`.
    fn pause(&self, left: Duration) -> Duration {
        let pause = if self.layout.pushes() { BACKING_POLL } else { POLL };
        jittered(&SystemEnv, pause).min(left + Duration::from_millis(1))
    }

    /// From an answer of `state_of`.
    fn state(&self, name: &LockName, answer: &[Value]) -> Result<LockState, Error> {
        let [owner, label, left, token_, state] = answer else { return Err(not_understood()) };
        let endless = matches!(left, Value::Int(left) if *left < 0);
        let remaining =
            if endless { Holder::WITHOUT_END } else { Duration::from_millis(number(left)?) };
        let holder = match text(owner)? {
            "" => None,
            "?" => Some(self.foreign_holder(label, remaining)?),
            owner => Some(backend_redis::node::holder(owner, text(label).ok(), remaining)),
        };
        let kept = text(state)? == "1";
        Ok(LockState::new(name.clone(), holder, token(token_)?).with_kept(kept))
    }

    /// A foreign holder.
    fn foreign_holder(&self, value: &Value, remaining: Duration) -> Result<Holder, Error> {
        let shown = match value {
            Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
            _ => return Err(not_understood()),
        };
        let plain: String = shown.chars().filter(|letter| !letter.is_control()).take(60).collect();
        let label = OwnerLabel::new(format!("a {} client: {plain}", self.layout.word))?;
        Ok(Holder::foreign(label, remaining))
    }

    async fn release_one(
        &self,
        grant: &Grant,
        keep: Option<Duration>,
    ) -> Result<ReleaseOutcome, Error> {
        let lock = self.lock(&grant.name)?;
        let owner = grant.owner.to_string();
        let keep = keep.map(|keep| whole_millis(keep).to_string()).unwrap_or_default();
        let rest = self.layout.rest.as_millis().to_string();
        let [wake, channel, message] = lock.wake();
        let own = [&*owner, &keep, wake, channel, message, &rest];
        outcome(&lock.run(&scripts::RELEASE, grant.owner, &own).await?)
    }

    async fn renew_some(&self, grants: &[&Grant], sent: Instant) -> Result<Vec<Renewal>, Error> {
        let (mut keys, mut own) = (vec![self.node.epoch_key()], Vec::new());
        for grant in grants {
            let lock = self.lock(&grant.name)?.keys.lock;
            let [note, run] = self.node.lock_and_queue(&grant.name);
            keys.extend([note, run, lock]);
            own.extend([grant.owner.to_string(), whole_millis(grant.lease).to_string()]);
        }
        let own: Vec<_> = own.iter().map(String::as_str).collect();
        let answer = scripts::call(&self.node, &self.layout, &scripts::RENEW, &keys, &own).await?;
        let mut answers = list(answer)?;
        let longest = number(&answers.pop().ok_or_else(not_understood)?)?;
        let longest = if longest == 0 { Duration::MAX } else { Duration::from_micros(longest) };
        if answers.len() != grants.len() {
            return Err(not_understood());
        }
        let read = |(grant, answer): (&&Grant, &Value)| match number(answer) {
            Ok(1) => Renewal::Renewed { from: sent, lease: grant.lease.min(longest) },
            Ok(2) => Renewal::Lost(LossReason::TakenOver),
            Ok(0) => Renewal::Lost(LossReason::Gone),
            _ => Renewal::Unknown(not_understood().at("foreign", "renew").on(&grant.name)),
        };
        Ok(grants.iter().zip(&answers).map(read).collect())
    }

    async fn raise_one(&self, grant: &Grant, wanted: FencingToken) -> Result<(), Error> {
        let lock = self.lock(&grant.name)?;
        let own = [&*grant.owner.to_string(), &wanted.to_string(), self.layout.token.word()];
        let answer = list(lock.run(&scripts::RAISE, grant.owner, &own).await?)?;
        match answer.first().map(text).transpose()? {
            Some("raised") => Ok(()),
            Some("gone") => Err(Error::new(
                ErrorKind::NotHeld,
                "the grant whose token was to be raised is gone",
            )),
            Some("floor") => {
                let limit = number(answer.get(1).ok_or_else(not_understood)?)?;
                Err(Error::new(ErrorKind::InvalidInput, floor_message(limit)))
            }
            _ => Err(not_understood()),
        }
    }

    /// The states of these names, and how long ago a foreign holder was last seen.
    async fn states(
        &self,
        names: &[LockName],
    ) -> Result<(Vec<LockState>, Option<Duration>), Error> {
        let mut keys = vec![self.node.epoch_key()];
        for name in names {
            let found = self.lock(name)?.keys;
            keys.extend([found.lock, self.node.lock_key(name), found.token]);
        }
        let answer = scripts::call(&self.node, &self.layout, &scripts::INSPECT, &keys, &[]).await?;
        let mut answers = list(answer)?;
        let seen = answers.pop().ok_or_else(not_understood)?;
        let seen = if text(&seen)?.is_empty() { None } else { Some(number(&seen)?) };
        let mut states = Vec::new();
        for (name, answer) in names.iter().zip(answers) {
            states.push(self.state(name, &list(answer)?)?);
        }
        Ok((states, seen.map(Duration::from_micros)))
    }

    /// Foreign clients keep no migration record. So the listing shows one for them, which says that
    /// a process uses only this store.
    async fn foreign_record(&self, seen: Duration) -> Result<Option<LockState>, Error> {
        let store = self.name_of_store().await?;
        let Some((name, label, left)) = record::of_foreign_clients(&store, self.layout.word, seen)?
        else {
            return Ok(None);
        };
        let holder = Holder::foreign(label, left);
        Ok(Some(LockState::new(name, Some(holder), FencingToken::ZERO)))
    }

    /// Each layout is a store of its own.
    async fn name_of_store(&self) -> Result<String, Error> {
        Ok(format!("foreign:{}:{}", self.layout.prefix(), self.node.identity().await?))
    }

    async fn page(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let cursor = from.unwrap_or_else(|| "0".into());
        let cursor: u64 = cursor.parse().map_err(|_| {
            let message = format!("{cursor:?} is no cursor of a listing; must be a page's `next`");
            Error::new(ErrorKind::InvalidInput, message)
        })?;
        let (next, mut names) = self.node.scan(cursor).await?;
        names.sort();
        names.dedup();
        let (mut locks, seen) = self.states(&names).await?;
        locks.retain(|state| state.holder.is_some());
        // On the last page, so that it is in the listing once.
        if let Some(seen) = seen.filter(|_| next == 0) {
            locks.extend(self.foreign_record(seen).await?);
        }
        Ok(Page::new(locks, (next != 0).then(|| next.to_string())))
    }
}

fn floor_message(limit: u64) -> String {
    format!(
        "the token leads the server's clock by more than the longest lease; must be at most {limit}"
    )
}

fn token(value: &Value) -> Result<FencingToken, Error> {
    FencingToken::new(number(value)?).ok_or_else(not_understood)
}

fn outcome(answer: &Value) -> Result<ReleaseOutcome, Error> {
    Ok(if number(answer)? == 1 { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld })
}

#[async_trait]
impl Backend for Foreign {
    fn kind(&self) -> &'static str {
        "foreign"
    }

    async fn identity(&self) -> Result<String, Error> {
        self.name_of_store().await.map_err(|error| error.at("foreign", "identity"))
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        Arc::new(guarantees::of(&self.node, &self.layout))
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let made = self.attempt(request).await;
        made.map_err(|error| error.at("foreign", "acquire").on(&request.name))
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let made = async {
            let channel = self.lock(&request.name)?.keys.channel;
            // Before the attempt, so that no message is missed.
            let waiter: Box<dyn lock_core::Waiter> = match channel {
                Some((channel, _)) => {
                    Box::new(SubscribedWaiter::enter(&self.waiters, &self.node, channel).await?)
                }
                None => Box::new(PollingWaiter),
            };
            Ok(match self.attempt(request).await? {
                Attempt::Granted(grant) => Enqueued::Granted(grant),
                Attempt::Busy(busy) => Enqueued::Waiting(waiter, busy),
                Attempt::Quarantined(quarantined) => Enqueued::Quarantined(quarantined),
            })
        };
        made.await.map_err(|error: Error| error.at("foreign", "enqueue").on(&request.name))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let made = async {
            let lock = self.lock(&request.name)?;
            let owner = request.owner.to_string();
            let [wake, channel, message] = lock.wake();
            let own = [&*owner, wake, channel, message];
            number(&lock.run(&scripts::ABANDON, request.owner, &own).await?)
        };
        made.await.map_err(|error| error.at("foreign", "abandon").on(&request.name))?;
        Ok(())
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let mut answers = Vec::new();
        for some in grants.chunks(RENEWALS) {
            match self.renew_some(some, sent).await {
                Ok(some) => answers.extend(some),
                Err(error) => answers.extend(some.iter().map(|grant| {
                    Renewal::Unknown(error.clone().at("foreign", "renew").on(&grant.name))
                })),
            }
        }
        answers
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let freed = self.release_one(grant, options.keep).await;
        let freed = freed.map_err(|error| error.at("foreign", "release").on(&grant.name))?;
        // There is no queue, so the next request of this process makes its own attempt.
        Ok(Released::plain(freed))
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let raised = self.raise_one(grant, token).await;
        raised.map_err(|error| error.at("foreign", "raise").on(&grant.name))
    }

    /// A lock without a holder is not distinguished from one that never existed.
    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let state = self.states(std::slice::from_ref(name)).await;
        let state = state.map_err(|error| error.at("foreign", "inspect").on(name))?.0.pop();
        Ok(state.filter(|state| state.holder.is_some()))
    }

    /// Lists only the locks that leasehold clients hold: foreign locks cannot be distinguished from
    /// other data. For a while after a foreign client was seen, the listing also has a migration
    /// record.
    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.page(from).await.map_err(|error| error.at("foreign", "list"))
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        let freed = async {
            let lock = self.lock(name)?;
            outcome(&lock.run(&scripts::FORCE, OwnerId::from_bits(0), &lock.wake()).await?)
        };
        freed.await.map_err(|error: Error| error.at("foreign", "force-release").on(name))
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.node.quarantine().await.map_err(|error| error.at("foreign", "check"))
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_records_complete().map_err(|error| error.at("foreign", "init"))?;
        self.node.init(init).await.map_err(|error| error.at("foreign", "init"))
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        let highest = self.node.highest_mark().await;
        highest.map(Some).map_err(|error| error.at("foreign", "highest-token"))
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        let difference = self.node.clock_difference().await;
        difference.map(Some).map_err(|error| error.at("foreign", "clock"))
    }

    async fn close(&self) {
        self.node.close();
    }
}
