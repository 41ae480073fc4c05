//! Calls wait here for each other, so that many go together in one script.
//!
//! A script costs the server several times what is done in it. So while one task's call is on its way,
//! others wait for the next batch instead of sending a script each. A task alone does not wait.
//!
//! A call has one time limit, from when it was made. A call that is still here when the limit is over is not sent
//! any more, so that its outcome is known; nor is one whose caller has gone.

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

/// Carries batches out.
pub trait BatchSink<J>: Send + Sync + 'static {
    /// Does those of these that are [taken](Queued::take).
    fn carry(self: Arc<Self>, jobs: Vec<Queued<J>>) -> impl Future<Output = ()> + Send;
}

/// A call that waits for its batch.
#[derive(Debug)]
pub struct Queued<J> {
    job: J,
    claim: Claim,
}

impl<J> Queued<J> {
    /// The call itself.
    pub fn job(&self) -> &J {
        &self.job
    }

    /// The call, to be sent now; `None` if its caller has gone or waits no longer.
    pub fn take(self) -> Option<J> {
        self.claim.take().then_some(self.job)
    }
}

/// Decides between a batch that is to send a call, and its caller who leaves: the first one has it.
#[derive(Clone, Debug, Default)]
struct Claim(Arc<AtomicBool>);

impl Claim {
    /// Whether nobody took the call before.
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

/// The caller of a call, who takes it along when it goes.
struct Caller(Claim);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.take();
    }
}

/// When calls go together.
#[derive(Clone, Copy, Debug)]
pub struct BatchPolicy {
    /// How many calls one batch has at most: a script holds the whole server up while it runs.
    pub most: usize,
    /// How many batches may be on their way at a time: more than one, so that a distant server is not
    /// waited for twice, and a near one works while this process does.
    pub batches: usize,
    /// Whether a call may go by itself while batches are on their way, or right after one of several.
    pub alone_beside_batches: bool,
    /// Whether a batch lets the tasks that can run now join it first, as long as any do: where a batch costs much
    /// besides what is in it.
    pub lets_others_in: bool,
}

/// The calls that may go together.
pub struct Batcher<J> {
    policy: BatchPolicy,
    alone: AtomicUsize,
    batches: Arc<Batches>,
    jobs: Mutex<Option<mpsc::UnboundedSender<Queued<J>>>>,
}

#[derive(Debug, Default)]
struct Batches {
    under_way: AtomicUsize,
    /// How many calls went in the last one.
    last: AtomicUsize,
}

impl Batches {
    /// Whether others are about: once a batch has had one call only, they are not.
    fn any(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0 || self.last.load(Ordering::Relaxed) > 1
    }
}

/// The right to make calls of one's own.
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
    /// A batcher with no calls.
    #[must_use]
    pub fn new(policy: BatchPolicy) -> Self {
        Self { policy, alone: AtomicUsize::new(0), batches: Arc::default(), jobs: Mutex::default() }
    }

    /// The right to go alone, while nobody else does.
    pub fn alone(&self) -> Option<Alone<'_>> {
        let alone = Alone(&self.alone);
        let first = self.alone.fetch_add(1, Ordering::Relaxed) == 0;
        let beside = self.policy.alone_beside_batches || !self.batches.any();
        (first && beside).then_some(alone)
    }

    /// Puts a call into the next batch, and waits for what `answer` hears of it, which is `None` where the
    /// runtime that was to send it has ended. Without a runtime it panics, as all calls do.
    ///
    /// # Errors
    /// `Unavailable` for a call that was not sent within `limit`, and never will be; `OutcomeUnknown` for one that
    /// was sent and had no answer within it.
    pub async fn call<T>(
        &self,
        sink: &Arc<impl BatchSink<J>>,
        job: J,
        limit: Duration,
        answer: impl Future<Output = Option<T>>,
    ) -> Result<T, Error> {
        let caller = Caller(Claim::default());
        self.join(sink, Queued { job, claim: caller.0.clone() });
        let told = tokio::time::timeout(limit, answer).await;
        let shown = humantime::format_duration(limit);
        match told {
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
                // The runtime of the last task has ended.
                Err(unsent) => unsent.0,
            },
            None => job,
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        // The receiver is here: it cannot fail.
        sender.send(job).ok();
        let batches = Arc::clone(&self.batches);
        tokio::spawn(run(Arc::downgrade(sink), receiver, self.policy, batches));
        *jobs = Some(sender);
    }
}

/// A batch under way, also where its task is dropped with its runtime.
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
                    // What is under way has clean-up of its own to do.
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
