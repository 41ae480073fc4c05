//! The memory backend in simulated time, with answers that a case holds back, loses, or makes up.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, BoxFuture, ClientOptions, Cursor, Enqueued, Env, Error, ErrorKind,
    FencingToken, Grant, Guarantees, Init, Instant, LockClient, LockName, LockState, Memory,
    NoRuntime, Outcome, Page, Release, Released, Renewal, Request, Signal, StoreSettings,
    SystemEnv, Turn,
};
use tokio::sync::{mpsc, watch};

/// Tokio's clock, which a case can pause, instead of the machine's.
#[derive(Debug)]
pub(crate) struct TokioEnv(tokio::time::Instant);

impl Env for TokioEnv {
    fn now(&self) -> Instant {
        Instant::from_nanos(1) + self.0.elapsed()
    }

    fn wall_micros(&self) -> u64 {
        1_800_000_000_000_000 + self.0.elapsed().as_micros() as u64
    }

    fn random(&self) -> u128 {
        SystemEnv.random()
    }

    fn spawn(&self, task: BoxFuture) -> Result<(), NoRuntime> {
        SystemEnv.spawn(task)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture {
        Box::pin(tokio::time::sleep(at.since(self.now())))
    }
}

/// The same on a machine that a case can suspend, on which the time of sleeping does not count.
#[derive(Debug)]
pub(crate) struct Suspended {
    running: TokioEnv,
    nanos: AtomicU64,
}

impl Suspended {
    pub(crate) fn new() -> Arc<Self> {
        let running = TokioEnv(tokio::time::Instant::now());
        Arc::new(Self { running, nanos: AtomicU64::new(0) })
    }

    pub(crate) fn suspend(&self, span: Duration) {
        self.nanos.fetch_add(span.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Env for Suspended {
    fn now(&self) -> Instant {
        self.running.now() + Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn wall_micros(&self) -> u64 {
        self.running.wall_micros() + self.nanos.load(Ordering::SeqCst) / 1_000
    }

    fn random(&self) -> u128 {
        self.running.random()
    }

    fn spawn(&self, task: BoxFuture) -> Result<(), NoRuntime> {
        self.running.spawn(task)
    }

    /// Late by a suspend, which no case waits out.
    fn sleep_until(&self, at: Instant) -> BoxFuture {
        self.sleep(at.since(self.now()))
    }
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lost {
    Request,
    Answer,
}

#[derive(Debug)]
pub(crate) struct Stub {
    pub(crate) memory: Memory,
    pub(crate) env: Arc<dyn Env>,
    /// Operations whose answers are held back.
    held: watch::Sender<HashSet<&'static str>>,
    lost: Mutex<HashMap<&'static str, VecDeque<Lost>>>,
    calls: Mutex<HashMap<&'static str, usize>>,
    /// What the next place hears, in the place of what the store says to it.
    script: Mutex<Option<mpsc::UnboundedReceiver<Signal>>>,
    /// What all places are told of when to ask.
    pub(crate) retry_after: Mutex<Option<Duration>>,
}

impl Stub {
    pub(crate) fn new() -> Arc<Self> {
        Self::over(Arc::new(TokioEnv(tokio::time::Instant::now())))
    }

    pub(crate) fn over(env: Arc<dyn Env>) -> Arc<Self> {
        Arc::new(Self {
            memory: Memory::with_env(Arc::clone(&env)),
            env,
            held: watch::Sender::default(),
            lost: Mutex::default(),
            calls: Mutex::default(),
            script: Mutex::default(),
            retry_after: Mutex::default(),
        })
    }

    pub(crate) fn client(self: &Arc<Self>) -> LockClient {
        self.client_with(ClientOptions::default())
    }

    pub(crate) fn client_with(self: &Arc<Self>, options: ClientOptions) -> LockClient {
        LockClient::with_options(self.clone(), Arc::clone(&self.env), options).unwrap()
    }

    /// Another client of the same store, with nothing in its way.
    pub(crate) fn other(&self) -> LockClient {
        let store = Arc::new(self.memory.clone());
        LockClient::with_options(store, Arc::clone(&self.env), ClientOptions::default()).unwrap()
    }

    /// Answers to `operation` are held back from now on.
    pub(crate) fn hold(&self, operation: &'static str) {
        self.held.send_modify(|held| drop(held.insert(operation)));
    }

    pub(crate) fn let_go(&self, operation: &'static str) {
        self.held.send_modify(|held| drop(held.remove(operation)));
    }

    /// The next call of `operation` is lost.
    pub(crate) fn lose(&self, operation: &'static str, lost: Lost) {
        self.lost.lock().unwrap().entry(operation).or_default().push_back(lost);
    }

    /// The next place hears this.
    pub(crate) fn script(&self) -> mpsc::UnboundedSender<Signal> {
        let (say, hear) = mpsc::unbounded_channel();
        *self.script.lock().unwrap() = Some(hear);
        say
    }

    pub(crate) fn calls(&self, operation: &'static str) -> usize {
        self.calls.lock().unwrap().get(operation).copied().unwrap_or(0)
    }

    /// Waits, without time passing, until so many calls were made.
    pub(crate) async fn reached(&self, operation: &'static str, count: usize) {
        for _ in 0..100_000 {
            if self.calls(operation) >= count {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{operation} was not called {count} times");
    }

    pub(crate) async fn holder(&self, name: &str) -> Option<lock_core::OwnerId> {
        let name = LockName::new(name).unwrap();
        let state = self.memory.inspect(&name).await.unwrap();
        state.and_then(|state| state.holder).map(|holder| holder.owner)
    }

    /// Whether the name is free before any time has passed.
    pub(crate) async fn becomes_free(&self, name: &str) -> bool {
        for _ in 0..10_000 {
            if self.holder(name).await.is_none() {
                return true;
            }
            tokio::task::yield_now().await;
        }
        false
    }

    async fn call<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        *self.calls.lock().unwrap().entry(operation).or_default() += 1;
        let lost = self.lost.lock().unwrap().get_mut(operation).and_then(VecDeque::pop_front);
        let answer = match lost {
            Some(Lost::Request) => Err(Error::new(ErrorKind::Timeout, "the request was lost")),
            Some(Lost::Answer) => {
                call.await?;
                Err(Error::new(ErrorKind::Timeout, "the answer was lost"))
            }
            None => call.await,
        };
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held.contains(operation)).await.unwrap();
        answer
    }
}

#[derive(Debug)]
struct Scripted {
    turn: Box<dyn Turn>,
    hears: mpsc::UnboundedReceiver<Signal>,
}

#[async_trait]
impl Turn for Scripted {
    async fn next(&mut self) -> Signal {
        match self.hears.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.turn.leave().await
    }
}

#[async_trait]
impl Backend for Stub {
    fn kind(&self) -> &'static str {
        "stub"
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.memory.guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let answer = self.call("acquire", self.memory.try_acquire(request)).await?;
        Ok(match (answer, *self.retry_after.lock().unwrap()) {
            (Attempt::Busy(mut busy), Some(retry_after)) => {
                busy.retry_after = retry_after;
                Attempt::Busy(busy)
            }
            (answer, _) => answer,
        })
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let answer = self.call("enqueue", self.memory.enqueue(request)).await?;
        Ok(match answer {
            Enqueued::Waiting(turn, mut busy) => {
                busy.retry_after = self.retry_after.lock().unwrap().unwrap_or(busy.retry_after);
                match self.script.lock().unwrap().take() {
                    Some(hears) => Enqueued::Waiting(Box::new(Scripted { turn, hears }), busy),
                    None => Enqueued::Waiting(turn, busy),
                }
            }
            other => other,
        })
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.call("abandon", self.memory.abandon(request)).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let renewing = async { Ok(self.memory.renew(grants, sent).await) };
        match self.call("renew", renewing).await {
            Ok(answers) => answers,
            Err(error) => grants.iter().map(|_| Renewal::Unknown(error.clone())).collect(),
        }
    }

    async fn release(&self, grant: &Grant, how: Release<'_>) -> Result<Released, Error> {
        self.call("release", self.memory.release(grant, how)).await
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.memory.raise(grant, token).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.memory.inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.memory.list(from).await
    }

    async fn force_release(&self, name: &LockName) -> Result<Outcome, Error> {
        self.memory.force_release(name).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.memory.init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn close(&self) {}
}

/// The memory backend, which sets no lease longer than a limit of its own, and says so.
#[derive(Debug)]
pub(crate) struct Shorter {
    pub(crate) memory: Memory,
    pub(crate) limit: Duration,
    pub(crate) name: &'static str,
}

#[async_trait]
impl Backend for Shorter {
    fn kind(&self) -> &'static str {
        "shorter"
    }

    async fn identity(&self) -> Result<String, Error> {
        Ok(self.name.to_owned())
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.memory.guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let mut request = request.clone();
        request.lease = request.lease.min(self.limit);
        self.memory.try_acquire(&request).await
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.memory.abandon(request).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        self.memory.renew(grants, sent).await
    }

    async fn release(&self, grant: &Grant, how: Release<'_>) -> Result<Released, Error> {
        self.memory.release(grant, how).await
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.memory.raise(grant, token).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.memory.inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.memory.list(from).await
    }

    async fn force_release(&self, name: &LockName) -> Result<Outcome, Error> {
        self.memory.force_release(name).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.memory.init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn close(&self) {}
}
