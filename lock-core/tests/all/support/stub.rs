//! The store in memory, with faults that a test injects, in simulated or real time.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, ClientOptions, Cursor, Enqueued, Env, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Init, Instant, LockClient, LockName, LockState, Memory, Page, Promise, Quarantined,
    RecordRead, RecordWrite, ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, Signal,
    StoreSettings, SystemEnv, Waiter, WriteOutcome,
};
use tokio::sync::{Notify, mpsc, watch};

use super::envs::TokioEnv;

/// What happens to one call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The call is carried out and answered.
    None,
    RequestLost,
    AnswerLost,
    /// The call is not carried out, and never answered.
    Hangs,
    /// The call is not carried out, and answered with `Auth`.
    Refused,
    /// The same with `Unsupported`.
    Unsupported,
}

type Operations = watch::Sender<HashSet<&'static str>>;

#[derive(Debug)]
pub(crate) struct Stub {
    pub(crate) memory: Memory,
    pub(crate) env: Arc<dyn Env>,
    /// Operations whose requests do not reach the store.
    stalled: Operations,
    /// Operations whose answers are held back.
    held: Operations,
    /// The faults of the next calls, in order.
    faults: Mutex<HashMap<&'static str, VecDeque<Fault>>>,
    calls: Mutex<HashMap<&'static str, usize>>,
    /// What the next waiter receives, instead of the store's signals.
    script: Mutex<Option<mpsc::UnboundedReceiver<Signal>>>,
    /// The `retry_after` of all `Busy` answers, instead of the store's.
    pub(crate) retry_after: Mutex<Option<Duration>>,
    /// By how much renewals count from earlier than they were sent.
    pub(crate) late: Mutex<Duration>,
    /// Attempts fail, as with a store that is down.
    pub(crate) down: AtomicBool,
    closed: AtomicBool,
    /// Waiters receive no signals and must poll at once.
    pub(crate) deaf: AtomicBool,
    /// The next release that carries a request makes a queue entry for it, and fails. The release
    /// after it carries nothing.
    pub(crate) halves: AtomicBool,
    refused: AtomicBool,
    /// The store does not promise to keep records.
    pub(crate) forgetful: AtomicBool,
    /// Until when the store grants nothing.
    pub(crate) quarantine: OnceLock<tokio::time::Instant>,
    attempted: Notify,
}

impl Stub {
    pub(crate) fn new() -> Arc<Self> {
        Self::over(Arc::new(TokioEnv::new()))
    }

    /// In real time.
    pub(crate) fn real() -> Arc<Self> {
        Self::over(Arc::new(SystemEnv))
    }

    pub(crate) fn over(env: Arc<dyn Env>) -> Arc<Self> {
        Arc::new(Self {
            memory: Memory::with_env(Arc::clone(&env)),
            env,
            stalled: Operations::default(),
            held: Operations::default(),
            faults: Mutex::default(),
            calls: Mutex::default(),
            script: Mutex::default(),
            retry_after: Mutex::default(),
            late: Mutex::default(),
            down: AtomicBool::default(),
            closed: AtomicBool::default(),
            deaf: AtomicBool::default(),
            halves: AtomicBool::default(),
            refused: AtomicBool::default(),
            forgetful: AtomicBool::default(),
            quarantine: OnceLock::new(),
            attempted: Notify::new(),
        })
    }

    pub(crate) fn client(self: &Arc<Self>) -> LockClient {
        self.client_with(ClientOptions::default())
    }

    pub(crate) fn client_with(self: &Arc<Self>, options: ClientOptions) -> LockClient {
        LockClient::with_env(self.clone(), Arc::clone(&self.env), options).unwrap()
    }

    /// Another client of the same store, without faults.
    pub(crate) fn other(&self) -> LockClient {
        let store = Arc::new(self.memory.clone());
        LockClient::with_env(store, Arc::clone(&self.env), ClientOptions::default()).unwrap()
    }

    /// Holds back the answers to `operation` from now on.
    pub(crate) fn hold(&self, operation: &'static str) {
        self.held.send_modify(|held| {
            held.insert(operation);
        });
    }

    /// Sends the answers that were held back.
    pub(crate) fn let_go(&self, operation: &'static str) {
        self.held.send_modify(|held| {
            held.remove(operation);
        });
    }

    /// Holds back the requests of `operation` from now on.
    pub(crate) fn stall(&self, operation: &'static str) {
        self.stalled.send_modify(|stalled| {
            stalled.insert(operation);
        });
    }

    /// Carries out the requests that were held back, unless the store was closed meanwhile.
    pub(crate) fn resume(&self, operation: &'static str) {
        self.stalled.send_modify(|stalled| {
            stalled.remove(operation);
        });
    }

    /// Sets the fault of the next call of `operation` that has none yet.
    pub(crate) fn fault(&self, operation: &'static str, fault: Fault) {
        self.faults.lock().unwrap().entry(operation).or_default().push_back(fault);
    }

    /// The sender of the signals that the next waiter receives.
    pub(crate) fn script(&self) -> mpsc::UnboundedSender<Signal> {
        let (say, signals) = mpsc::unbounded_channel();
        *self.script.lock().unwrap() = Some(signals);
        say
    }

    pub(crate) fn calls(&self, operation: &'static str) -> usize {
        self.calls.lock().unwrap().get(operation).copied().unwrap_or(0)
    }

    /// Waits for the next attempt to reach the store.
    pub(crate) async fn next_attempt(&self) {
        self.attempted.notified().await;
    }

    fn quarantined(&self) -> Option<Quarantined> {
        let remaining = self.quarantine.get()?.duration_since(tokio::time::Instant::now());
        (!remaining.is_zero()).then(|| Quarantined::new(remaining, "planted"))
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
        if operation == "acquire" {
            self.attempted.notify_one();
        }
        let mut stalled = self.stalled.subscribe();
        if stalled.borrow_and_update().contains(operation) {
            stalled.wait_for(|stalled| !stalled.contains(operation)).await.unwrap();
            if self.closed.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::Config, "the store is closed"));
            }
        }
        let fault = self.faults.lock().unwrap().get_mut(operation).and_then(VecDeque::pop_front);
        let answer = match fault.unwrap_or(Fault::None) {
            Fault::None => call.await,
            Fault::RequestLost => Err(Error::new(ErrorKind::Timeout, "the request was lost")),
            Fault::AnswerLost => {
                call.await?;
                Err(Error::new(ErrorKind::Timeout, "the answer was lost"))
            }
            Fault::Hangs => std::future::pending().await,
            Fault::Refused => Err(Error::new(ErrorKind::Auth, "refused")),
            Fault::Unsupported => Err(Error::new(ErrorKind::Unsupported, "it has none")),
        };
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held.contains(operation)).await.unwrap();
        answer
    }
}

#[derive(Debug)]
struct Scripted {
    waiter: Box<dyn Waiter>,
    signals: mpsc::UnboundedReceiver<Signal>,
}

#[async_trait]
impl Waiter for Scripted {
    async fn next(&mut self) -> Signal {
        match self.signals.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.waiter.leave().await
    }
}

#[async_trait]
impl Backend for Stub {
    fn kind(&self) -> &'static str {
        "stub"
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        let promised = self.memory.guarantees();
        if !self.forgetful.load(Ordering::SeqCst) {
            return promised;
        }
        let mut promised = (*promised).clone();
        promised.record = Promise::Withheld { why: "it does not flush each write".into() };
        Arc::new(promised)
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let attempt = async {
            if self.down.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::Unavailable, "down"));
            }
            match self.quarantined() {
                Some(quarantined) => Ok(Attempt::Quarantined(quarantined)),
                None => self.memory.try_acquire(request).await,
            }
        };
        let answer = self.call("acquire", attempt).await?;
        Ok(match (answer, *self.retry_after.lock().unwrap()) {
            (Attempt::Busy(mut busy), Some(retry_after)) => {
                busy.retry_after = retry_after;
                Attempt::Busy(busy)
            }
            (answer, _) => answer,
        })
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        if let Some(quarantined) = self.quarantined() {
            return Ok(Enqueued::Quarantined(quarantined));
        }
        let answer = self.call("enqueue", self.memory.enqueue(request)).await?;
        let Enqueued::Waiting(waiter, mut busy) = answer else { return Ok(answer) };
        if self.deaf.load(Ordering::SeqCst) {
            busy.retry_after = Duration::ZERO;
            // The sender is gone, so the waiter receives nothing.
            let (_, signals) = mpsc::unbounded_channel();
            return Ok(Enqueued::Waiting(Box::new(Scripted { waiter, signals }), busy));
        }
        busy.retry_after = self.retry_after.lock().unwrap().unwrap_or(busy.retry_after);
        Ok(match self.script.lock().unwrap().take() {
            Some(signals) => Enqueued::Waiting(Box::new(Scripted { waiter, signals }), busy),
            None => Enqueued::Waiting(waiter, busy),
        })
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.call("abandon", self.memory.abandon(request)).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let from = sent - *self.late.lock().unwrap();
        let renewing = async { Ok(self.memory.renew(grants, from).await) };
        match self.call("renew", renewing).await {
            Ok(answers) => answers,
            Err(error) => grants.iter().map(|_| Renewal::Unknown(error.clone())).collect(),
        }
    }

    async fn release(
        &self,
        grant: &Grant,
        mut options: ReleaseOptions<'_>,
    ) -> Result<Released, Error> {
        if let Some(next) = options.next.filter(|_| self.halves.swap(false, Ordering::SeqCst)) {
            self.memory.enqueue(next).await?;
            self.refused.store(true, Ordering::SeqCst);
            return Err(Error::new(ErrorKind::Unavailable, "only the entry was made"));
        }
        if self.refused.swap(false, Ordering::SeqCst) {
            options.next = None;
        }
        self.call("release", self.memory.release(grant, options)).await
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.memory.raise(grant, token).await
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        self.call("reown", self.memory.reown(grant, request)).await
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        self.call("read-record", self.memory.read_record(name)).await
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        self.call("write-record", self.memory.write_record(grant, write)).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.call("inspect", self.memory.inspect(name)).await
    }

    /// Two pages with the same names, as if all had moved between them.
    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let again = from.is_none().then(|| Cursor::from("again"));
        let page = self.call("list", self.memory.list(None)).await?;
        Ok(Page::new(page.locks, again))
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        self.memory.force_release(name).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.memory.init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}
