//! The trait [`Backend`], in terms of the steps.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _, TryStreamExt as _,
    future::{join, join_all},
    stream,
};
use lock_core::{
    Attempt, Backend, Busy, ConnectionSecurity, Cursor, Env, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Holder, Init, Instant, LockName, LockState, LossReason, Mutex, OwnerId, Page,
    Record, RecordRead, RecordWrite, ReleaseOptions, ReleaseOutcome, Released, Renewal, Request,
    RwLock, StoreSettings, StoreTime, SystemEnv, WriteOutcome, async_trait, check_lease,
    check_span, check_token, jittered, whole_millis,
};
use tokio::sync::Semaphore;

use super::{
    decide::{Answer, Step, Verb},
    guarantees, keys,
    observed::{Observed, View},
    record::Value,
    runner::{Runner, Stepped},
    settings::{self, Settings},
    store::CasStore,
    tries::until,
};
use crate::tunables::{
    AT_ONCE, FEW_NAMES, LONGEST_POLL, OLD_SETTINGS, POLL_PART, SHORTEST_POLL, STILL_WAITS, TIMEOUT,
};

/// How to use a store that compares and swaps.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CasOptions {
    /// A short word for the kind of store.
    pub kind: &'static str,
    /// The shortest lease: several times what a request takes, and what the store allows of writes
    /// to one object. Default: 2 s.
    pub shortest_lease: Duration,
    /// The longest lease that this client expects the store to have. Default: any.
    pub longest_lease: Option<Duration>,
    /// The time limit of a call with all its requests. Default: 5 s.
    pub timeout: Duration,
    /// How the connection is protected. Default: `Plain`.
    pub connection: ConnectionSecurity,
    /// Clock, randomness and sleeping. Default: the system's.
    pub env: Arc<dyn Env>,
}

impl CasOptions {
    /// The defaults for this kind of store.
    #[must_use]
    pub fn new(kind: &'static str) -> Self {
        Self {
            kind,
            shortest_lease: Duration::from_secs(2),
            longest_lease: None,
            timeout: TIMEOUT,
            connection: ConnectionSecurity::Plain,
            env: Arc::new(SystemEnv),
        }
    }
}

/// Locks in a store that compares and swaps.
#[derive(Debug)]
pub struct CasBackend {
    runner: Runner,
    options: CasOptions,
    /// The settings, what they promise, and when they were read; `None` if they must be read again.
    agreed: RwLock<(Settings, Arc<Guarantees>, Option<Instant>)>,
    /// When this client first and last found a lock busy in its present wait: from this follows how
    /// often it polls.
    waits: Mutex<HashMap<LockName, [Instant; 2]>>,
}

impl CasBackend {
    /// Opens the store: reads its settings, or makes them, and tries whether it compares.
    ///
    /// # Errors
    /// `Config` if the store ignores the conditions of writes, if this machine's clock is far from
    /// the store's, if the store has another longest lease than the expected one, or if the objects
    /// are of another program or version; otherwise as the store.
    pub async fn open(store: Arc<dyn CasStore>, options: CasOptions) -> Result<Self, Error> {
        let (kind, read_at) = (options.kind, options.env.now());
        let runner = Runner {
            store,
            env: Arc::clone(&options.env),
            observed: Observed::new(),
            timeout: options.timeout,
            renewals: Semaphore::new(AT_ONCE),
        };
        let open = settings::open(&*runner.store, &*runner.env, options.longest_lease);
        let settings = runner.in_time(open).await.map_err(|error| error.at(kind, "connect"))?;
        let promised = Arc::new(guarantees::of(&options, settings.longest_lease()));
        let agreed = RwLock::new((settings, promised, Some(read_at)));
        Ok(Self { runner, options, agreed, waits: Mutex::new(HashMap::new()) })
    }

    fn longest(&self) -> Duration {
        self.agreed.read().0.longest_lease()
    }

    /// Reads the settings, and changes the longest lease to the given one.
    async fn change(&self, longest_lease_ms: Option<u64>) -> Result<Duration, Error> {
        let (runner, read_at) = (&self.runner, self.runner.env.now());
        let changed = settings::change(&*runner.store, &*runner.env, longest_lease_ms);
        let settings = runner.in_time(changed).await?;
        let longest = settings.longest_lease();
        let promised = Arc::new(guarantees::of(&self.options, longest));
        *self.agreed.write() = (settings, promised, Some(read_at));
        Ok(longest)
    }

    /// Reads the settings again if they are old: `init` may have changed them.
    async fn refresh(&self) -> Result<(), Error> {
        let now = self.runner.env.now();
        {
            let mut agreed = self.agreed.write();
            if agreed.2.is_some_and(|read_at| now.since(read_at) < OLD_SETTINGS) {
                return Ok(());
            }
            // Other calls need not read them, too.
            agreed.2 = Some(now);
        }
        let changed = self.change(None).await.map(drop);
        if changed.as_ref().is_err_and(|error| !error.is_retryable()) {
            // The next attempt must fail, too, for example after an upgrade of the store.
            self.agreed.write().2 = None;
        }
        changed
    }

    fn at(&self, operation: &'static str, name: &LockName) -> impl Fn(Error) -> Error {
        let (kind, name) = (self.options.kind, name.clone());
        move |error| error.at(kind, operation).on(&name)
    }

    async fn step(
        &self,
        operation: &'static str,
        name: &LockName,
        owner: OwnerId,
        verb: Verb,
    ) -> Result<Stepped, Error> {
        let step = Step { owner, verb };
        self.runner.step(name, &step).await.map_err(self.at(operation, name))
    }

    async fn view(&self, operation: &'static str, name: &LockName) -> Result<View, Error> {
        self.refresh().await.map_err(self.at(operation, name))?;
        let read = self.runner.in_time(self.runner.read(name)).await;
        read.map_err(self.at(operation, name))
    }

    fn check_token(&self, token: FencingToken) -> Result<(), Error> {
        check_token(token, self.runner.env.wall_micros(), self.longest())
    }

    fn busy(&self, name: &LockName, view: &View) -> Busy {
        let now = self.runner.env.now();
        let mut waits = self.waits.lock();
        if waits.len() > FEW_NAMES {
            waits.retain(|_, [_, last]| now.since(*last) < STILL_WAITS);
        }
        let known = waits.get(name).filter(|[_, last]| now.since(*last) < STILL_WAITS);
        let first = known.map_or(now, |[first, _]| *first);
        waits.insert(name.clone(), [first, now]);
        let pause = (now.since(first) / POLL_PART).clamp(SHORTEST_POLL, LONGEST_POLL);
        // The end of the lease, as far as this client knows, comes before a late poll.
        let holder = holder(view);
        let end = holder.as_ref().map_or(pause, |holder| holder.remaining.max(SHORTEST_POLL));
        let token = view.record().map_or(FencingToken::ZERO, |record| record.token);
        Busy::new(holder, token, jittered(&*self.runner.env, pause.min(end)))
    }

    fn granted(&self, request: &Request, answer: Answer) -> Option<Grant> {
        let Answer::Granted(token) = answer else { return None };
        self.waits.lock().remove(&request.name);
        Some(Grant::new(request, token))
    }

    async fn renew_one(&self, grant: &Grant, sent: Instant) -> Renewal {
        let lease = grant.lease.min(self.longest());
        let verb = Verb::Renew(whole_millis(lease));
        match self.step("renew", &grant.name, grant.owner, verb).await {
            Ok((Answer::Done, _)) => Renewal::Renewed { from: sent, lease },
            Ok((_, view)) if holder(&view).is_some() => Renewal::Lost(LossReason::TakenOver),
            Ok(_) => Renewal::Lost(LossReason::Gone),
            Err(error) => Renewal::Unknown(error),
        }
    }
}

/// Who has the lock, as far as this client knows.
fn holder(view: &View) -> Option<Holder> {
    let held = view.record()?.holder.as_ref().filter(|_| !view.is_over())?;
    // The margin is no part of the lease that the holder has asked for.
    let remaining = view.remaining.min(held.lease());
    Some(Holder::new(held.owner, held.label.clone(), remaining))
}

fn state(name: LockName, view: &View) -> Option<LockState> {
    let record = view.record()?;
    let holder = holder(view);
    let kept = holder.is_some() && record.holder.as_ref().is_some_and(|held| held.kept);
    Some(LockState::new(name, holder, record.token).with_kept(kept))
}

fn outcome(answer: Answer) -> ReleaseOutcome {
    if answer == Answer::Done { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld }
}

#[async_trait]
impl Backend for CasBackend {
    fn kind(&self) -> &'static str {
        self.options.kind
    }

    async fn identity(&self) -> Result<String, Error> {
        Ok(format!("{}:{}", self.options.kind, self.agreed.read().0.identity))
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        Arc::clone(&self.agreed.read().1)
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let name = &request.name;
        self.refresh().await.map_err(self.at("acquire", name))?;
        check_lease(request.lease, self.longest()).map_err(self.at("acquire", name))?;
        self.check_token(request.floor).map_err(self.at("acquire", name))?;
        let (label, lease_ms) = (request.label.clone(), whole_millis(request.lease));
        let verb = Verb::Acquire { label, lease_ms, floor: request.floor };
        let (answer, view) = self.step("acquire", name, request.owner, verb).await?;
        if answer == Answer::UsedUp {
            let error = Error::new(ErrorKind::Config, "the fencing tokens are used up");
            return Err(self.at("acquire", name)(error));
        }
        Ok(match self.granted(request, answer) {
            Some(grant) => Attempt::Granted(grant),
            None => Attempt::Busy(self.busy(name, &view)),
        })
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.step("abandon", &request.name, request.owner, Verb::Abandon).await.map(drop)
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let renewals = grants.iter().map(|grant| self.renew_one(grant, sent));
        // What the settings say now counts from the next renewal on.
        let (renewals, read) = join(join_all(renewals), self.refresh()).await;
        match read {
            // This client may not use the store any more.
            Err(error) if !error.is_retryable() => {
                let error = error.at(self.options.kind, "renew");
                grants.iter().map(|_| Renewal::Unknown(error.clone())).collect()
            }
            _ => renewals,
        }
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let verb = Verb::Release(options.keep.map(whole_millis));
        let (answer, _) = self.step("release", &grant.name, grant.owner, verb).await?;
        Ok(Released::plain(outcome(answer)))
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.check_token(token).map_err(self.at("raise", &grant.name))?;
        let raise = self.step("raise", &grant.name, grant.owner, Verb::Raise(token));
        if raise.await?.0 == Answer::Done {
            return Ok(());
        }
        let message = "the grant whose token was to be raised is gone";
        Err(self.at("raise", &grant.name)(Error::new(ErrorKind::NotHeld, message)))
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        check_lease(request.lease, self.longest()).map_err(self.at("reown", &grant.name))?;
        let (label, lease_ms) = (request.label.clone(), whole_millis(request.lease));
        let verb = Verb::Reown { from: grant.owner, token: grant.token, label, lease_ms };
        let (answer, _) = self.step("reown", &grant.name, request.owner, verb).await?;
        Ok(self.granted(request, answer))
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        let view = self.view("read-record", name).await?;
        let value = view.record().and_then(|record| record.value.as_ref());
        let record = value.map(|value| {
            let written = StoreTime::from_micros(value.written_micros);
            Record::new(value.bytes.clone(), value.token, written)
        });
        let now = StoreTime::from_micros(self.runner.env.wall_micros());
        Ok(RecordRead::new(record, now))
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let value = Value {
            bytes: write.value.to_vec(),
            token: grant.token,
            number: write.number,
            written_micros: self.runner.env.wall_micros(),
        };
        let write = self.step("write-record", &grant.name, grant.owner, Verb::Write(value));
        let done = write.await?.0 == Answer::Done;
        Ok(if done { WriteOutcome::Written } else { WriteOutcome::NotHeld })
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let view = self.view("inspect", name).await?;
        Ok(state(name.clone(), &view))
    }

    /// A page is a page of the store: the held ones among its names.
    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let at = |error: Error| error.at(self.options.kind, "list");
        let runner = &self.runner;
        let list = || async { runner.store.list(keys::LOCKS, from.as_deref()).await.map(Some) };
        let listed = runner.in_time(until(&*runner.env, list)).await.map_err(at)?;
        let next = listed.last().cloned();
        let names = listed.iter().filter_map(|key| keys::name(key));
        let read = |name: LockName| async move {
            Ok::<_, Error>(state(name.clone(), &self.view("list", &name).await?))
        };
        let reads: Vec<_> = names.map(read).collect();
        let states: Vec<_> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
        let held = |state: &LockState| state.holder.is_some();
        Ok(Page::new(states.into_iter().flatten().filter(held).collect(), next))
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        let view = self.view("force", name).await?;
        // Only the holder that is seen now: a repeat must not free the next one.
        let held = view.record().and_then(|record| record.holder.as_ref());
        let Some(held) = held else { return Ok(ReleaseOutcome::NotHeld) };
        Ok(outcome(self.step("force", name, held.owner, Verb::Force).await?.0))
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        let at = |error: Error| error.at(self.options.kind, "init");
        let why = "an earlier version of an object brings an earlier holder back";
        init.refuse_restored(why).map_err(at)?;
        init.refuse_reset_tokens().map_err(at)?;
        if let Some(longest) = init.longest_lease {
            let most = Duration::from_secs(86_400);
            check_span("longest_lease", longest, self.options.shortest_lease, most).map_err(at)?;
        }
        let longest = self.change(init.longest_lease.map(whole_millis)).await.map_err(at)?;
        Ok(StoreSettings::new(longest, None))
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        // Tokens follow the clocks of clients.
        Ok(None)
    }

    async fn close(&self) {}
}
