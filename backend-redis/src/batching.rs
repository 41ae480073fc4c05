//! Batches: many calls go together in one script.
//!
//! A script call costs the server several times the work inside it. So while one task's call is on
//! its way, the calls of other tasks gather for the next batch instead of each sending a script. If
//! there is only one task, it does not wait.
//!
//! Measured with 64 tasks on names of their own, without batches and with them: 41,000 and 66,000
//! pairs a second on one Redis, 5,200 and 42,000 on five nodes of Redlock.
//!
//! A call has one time limit, from its start. If a call is still waiting here when the limit is
//! over, it is not sent any more, so its outcome is known. The same holds for a call whose caller
//! has gone.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use lock_core::{Error, ErrorKind, Mutex};
use tokio::sync::mpsc;

/// Sends batches.
pub trait BatchSink<J>: Send + Sync + 'static {
    /// Sends those of these calls that it could [take](Queued::take).
    fn carry(self: Arc<Self>, jobs: Vec<Queued<J>>) -> impl Future<Output = ()> + Send;
}

/// A call that waits for its batch.
#[derive(Debug)]
pub struct Queued<J> {
    job: J,
    claim: Claim,
}

impl<J> Queued<J> {
    /// The call.
    pub fn job(&self) -> &J {
        &self.job
    }

    /// The call, which must be sent now. `None` if its caller has gone or has stopped waiting.
    pub fn take(self) -> Option<J> {
        self.claim.take().then_some(self.job)
    }
}

/// Decides between a batch that wants to send a call and the caller who wants to leave. The first
/// one wins.
#[derive(Clone, Debug, Default)]
struct Claim(Arc<AtomicBool>);

impl Claim {
    /// Whether this is the first to take the call.
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

/// The caller of a queued call. When it is dropped, it takes the call back.
struct Caller(Claim);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.take();
    }
}

/// The rules by which calls are put together.
#[derive(Clone, Copy, Debug)]
pub struct BatchPolicy {
    /// The largest number of calls in one batch. A script holds up the whole server while it runs.
    pub most: usize,
    /// How many batches may be on their way at a time. With more than one, a distant server costs
    /// one wait and not two, and a near one works while this process prepares the next batch.
    pub batches: usize,
    /// Whether a call may be sent alone while batches are on their way, or right after a batch of
    /// several calls.
    pub alone_beside_batches: bool,
    /// Whether a batch first lets all runnable tasks join it, until none does. This pays if a batch
    /// costs much besides the calls in it.
    pub lets_others_in: bool,
}

/// Gathers calls into batches.
pub struct Batcher<J> {
    policy: BatchPolicy,
    alone: AtomicUsize,
    batches: Arc<Batches>,
    jobs: Mutex<Option<mpsc::UnboundedSender<Queued<J>>>>,
}

#[derive(Debug, Default)]
struct Batches {
    under_way: AtomicUsize,
    /// How many calls the last batch had.
    last: AtomicUsize,
}

impl Batches {
    /// Whether other tasks make calls too. They do not, once a batch had only one call.
    fn any(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0 || self.last.load(Ordering::Relaxed) > 1
    }
}

/// The right to send a call alone.
#[derive(Debug)]
pub struct Alone<'a>(&'a AtomicUsize);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<J> fmt::Debug for Batcher<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl<J: Send + 'static> Batcher<J> {
    /// A batcher without calls.
    #[must_use]
    pub fn new(policy: BatchPolicy) -> Self {
        Self { policy, alone: AtomicUsize::new(0), batches: Arc::default(), jobs: Mutex::default() }
    }

    /// The right to send a call alone, if no other call is being sent.
    pub fn alone(&self) -> Option<Alone<'_>> {
        let alone = Alone(&self.alone);
        let first = self.alone.fetch_add(1, Ordering::Relaxed) == 0;
        let beside = self.policy.alone_beside_batches || !self.batches.any();
        (first && beside).then_some(alone)
    }

    /// Puts a call into the next batch and waits for the result from `answer`. The result is `None`
    /// if the runtime that should have sent it has ended. Without a runtime this panics, as all
    /// calls do.
    ///
    /// # Errors
    /// `Unavailable` for a call that was not sent within `limit`, and never will be.
    /// `OutcomeUnknown` for a call that was sent and had no answer within `limit`.
    pub async fn call<T>(
        &self,
        sink: &Arc<impl BatchSink<J>>,
        job: J,
        limit: Duration,
        answer: impl Future<Output = Option<T>>,
    ) -> Result<T, Error> {
        let caller = Caller(Claim::default());
        self.join(sink, Queued { job, claim: caller.0.clone() });
        let answered = tokio::time::timeout(limit, answer).await;
        let shown = humantime::format_duration(limit);
        match answered {
            Ok(Some(answer)) => Ok(answer),
            _ if caller.0.take() => {
                let message = format!("not sent within {shown}: other calls had no answer");
                Err(Error::new(ErrorKind::Unavailable, message))
            }
            Ok(None) => {
                let message = "the runtime of the call has ended";
                Err(Error::new(ErrorKind::OutcomeUnknown, message))
            }
            Err(_) => {
                let message = format!("no answer within {shown}");
                Err(Error::new(ErrorKind::OutcomeUnknown, message))
            }
        }
    }

    fn join(&self, sink: &Arc<impl BatchSink<J>>, job: Queued<J>) {
        let mut jobs = self.jobs.lock();
        let job = match &*jobs {
            Some(sender) => match sender.send(job) {
                Ok(()) => return,
                // The runtime of the last sending task has ended.
                Err(unsent) => unsent.0,
            },
            None => job,
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        // This cannot fail: the receiver still exists.
        sender.send(job).ok();
        let batches = Arc::clone(&self.batches);
        tokio::spawn(run(Arc::downgrade(sink), receiver, self.policy, batches));
        *jobs = Some(sender);
    }
}

/// Counts a batch on its way, until it is done or its task is dropped with its runtime.
struct UnderWay(Arc<Batches>);

impl UnderWay {
    fn new(batches: &Arc<Batches>) -> Self {
        batches.under_way.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(batches))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends batches until the sink or the batcher is gone.
async fn run<J>(
    sink: Weak<impl BatchSink<J>>,
    mut jobs: mpsc::UnboundedReceiver<Queued<J>>,
    policy: BatchPolicy,
    batches: Arc<Batches>,
) {
    let mut calls = FuturesUnordered::new();
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            job = jobs.recv(), if calls.len() < policy.batches => {
                let Some(job) = job else {
                    // Calls on their way have their own clean-up to do.
                    while calls.next().await.is_some() {}
                    return;
                };
                let Some(sink) = sink.upgrade() else { return };
                batch.push(job);
                let under_way = UnderWay::new(&batches);
                loop {
                    let before = batch.len();
                    if policy.lets_others_in {
                        tokio::task::yield_now().await;
                    }
                    while batch.len() < policy.most && let Ok(job) = jobs.try_recv() {
                        batch.push(job);
                    }
                    if !policy.lets_others_in || batch.len() == before || batch.len() == policy.most {
                        break;
                    }
                }
                batches.last.store(batch.len(), Ordering::Relaxed);
                calls.push(async move {
                    sink.carry(batch).await;
                    drop(under_way);
                });
            }
            Some(()) = calls.next() => {}
        }
    }
}
