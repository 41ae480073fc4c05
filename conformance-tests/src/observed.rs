//! A wrapper around a backend that reports when somebody waits in a queue entry, so that a case
//! need not guess, and that has the faults of records.

#![deny(clippy::missing_trait_methods)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Error, FencingToken, Grant, Guarantees, Init, Instant,
    LockName, LockState, Page, Quarantined, RecordRead, RecordWrite, ReleaseOptions,
    ReleaseOutcome, Released, Renewal, Request, Signal, StoreSettings, Waiter, WriteOutcome,
};
use tokio::sync::watch;

use crate::record_faults::RecordFaults;

/// Counts of one connection: the queue entries in which somebody waits, and the attempts at the
/// same time.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    begun: watch::Receiver<u64>,
    left: watch::Receiver<u64>,
    attempts: Arc<Attempts>,
}

/// Attempts of one connection.
#[derive(Debug, Default)]
struct Attempts {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Waits {
    /// Waits until somebody has begun to wait in `count` queue entries since the connection was
    /// made. By then the store has refused the requests, and the waiters listen for signals.
    pub(crate) async fn reach(&mut self, count: u64) {
        self.begun.wait_for(|begun| *begun >= count).await.expect("the connection lives");
    }

    /// Waits until `count` queue entries have been withdrawn, and the store has answered.
    pub(crate) async fn left(&mut self, count: u64) {
        self.left.wait_for(|left| *left >= count).await.expect("the connection lives");
    }

    pub(crate) fn most_attempts_at_once(&self) -> usize {
        self.attempts.most.load(Ordering::SeqCst)
    }
}

/// Is called for each queue entry that the store has made.
pub type OnEnqueue = Arc<dyn Fn(&Request) + Send + Sync>;

/// A backend that reports who waits.
pub struct Observed {
    inner: Arc<dyn Backend>,
    begun: watch::Sender<u64>,
    left: watch::Sender<u64>,
    attempts: Arc<Attempts>,
    on_enqueue: Option<OnEnqueue>,
    record_faults: Arc<RecordFaults>,
}

impl std::fmt::Debug for Observed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observed").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Observed {
    fn new(inner: Arc<dyn Backend>) -> Self {
        let (begun, left) = (watch::Sender::new(0), watch::Sender::new(0));
        let (attempts, record_faults) = (Arc::default(), Arc::default());
        Self { inner, begun, left, attempts, on_enqueue: None, record_faults }
    }

    pub(crate) fn over(inner: Arc<dyn Backend>) -> (Arc<dyn Backend>, Waits) {
        let observed = Self::new(inner);
        let waits = Waits {
            begun: observed.begun.subscribe(),
            left: observed.left.subscribe(),
            attempts: Arc::clone(&observed.attempts),
        };
        (Arc::new(observed), waits)
    }

    /// Wraps `inner`; calls `on_enqueue` for each queue entry.
    pub fn enqueues(inner: Arc<dyn Backend>, on_enqueue: OnEnqueue) -> Arc<dyn Backend> {
        Arc::new(Self { on_enqueue: Some(on_enqueue), ..Self::new(inner) })
    }

    /// Wraps `inner`, whose records then have the faults that the caller sets.
    pub fn with_record_faults(inner: Arc<dyn Backend>) -> (Arc<dyn Backend>, Arc<RecordFaults>) {
        let observed = Self::new(inner);
        let faults = Arc::clone(&observed.record_faults);
        (Arc::new(observed), faults)
    }

    fn enqueued(&self, request: &Request, answer: Enqueued) -> Enqueued {
        match answer {
            Enqueued::Waiting(waiter, busy) => {
                if let Some(tell) = &self.on_enqueue {
                    tell(request);
                }
                let (begun, left) = (Some(self.begun.clone()), self.left.clone());
                Enqueued::Waiting(Box::new(ObservedWaiter { waiter, begun, left }), busy)
            }
            other => other,
        }
    }
}

#[derive(Debug)]
struct ObservedWaiter {
    waiter: Box<dyn Waiter>,
    /// `None` after the first wait.
    begun: Option<watch::Sender<u64>>,
    left: watch::Sender<u64>,
}

#[async_trait]
impl Waiter for ObservedWaiter {
    async fn next(&mut self) -> Signal {
        if let Some(begun) = self.begun.take() {
            begun.send_modify(|count| *count += 1);
        }
        self.waiter.next().await
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        let answer = self.waiter.leave().await;
        self.left.send_modify(|count| *count += 1);
        answer
    }
}

#[async_trait]
impl Backend for Observed {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn identity(&self) -> Result<String, Error> {
        self.inner.identity().await
    }

    fn answers_at_once(&self) -> bool {
        self.inner.answers_at_once()
    }

    fn was_busy(&self, name: &LockName) -> bool {
        self.inner.was_busy(name)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.inner.guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let Attempts { now, most } = &*self.attempts;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let answer = self.inner.try_acquire(request).await;
        now.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let answer = self.inner.enqueue(request).await?;
        Ok(self.enqueued(request, answer))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.inner.abandon(request).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        self.inner.renew(grants, sent).await
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let Released { outcome, next, .. } = self.inner.release(grant, options).await?;
        let next = next.zip(options.next).map(|(answer, request)| self.enqueued(request, answer));
        Ok(Released::new(outcome, next))
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.inner.raise(grant, token).await
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        self.inner.reown(grant, request).await
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        self.record_faults.of_read(self.inner.read_record(name).await)
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        self.record_faults.before_write().await;
        self.record_faults.of_write(self.inner.write_record(grant, write).await).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.inner.inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.inner.list(from).await
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        self.inner.force_release(name).await
    }

    async fn force_release_if(
        &self,
        name: &LockName,
        token: FencingToken,
    ) -> Result<ReleaseOutcome, Error> {
        self.inner.force_release_if(name, token).await
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.inner.quarantine().await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.inner.init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        self.inner.clock_difference_micros().await
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        self.inner.highest_token().await
    }

    async fn warnings(&self) -> Result<Vec<String>, Error> {
        self.inner.warnings().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
