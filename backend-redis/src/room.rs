//! Where calls wait for each other, so that many go together in one script.
//!
//! A script costs the server several times what is done in it. So while one task's call is on its way,
//! others wait for the next batch instead of sending a script each. A task alone waits for nobody.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::mpsc;

/// A script holds the whole server up.
const MOST: usize = 100;

/// Who carries batches out.
pub trait Carrier<J>: Send + Sync + 'static {
    /// Does all of these.
    fn carry(self: Arc<Self>, jobs: Vec<J>) -> impl Future<Output = ()> + Send;
}

/// When calls go together.
#[derive(Clone, Copy, Debug)]
pub struct Habit {
    /// How many batches may be on their way at a time: more than one, so that a distant server is not
    /// waited for twice, and a near one works while this process does.
    pub batches: usize,
    /// Whether a call may go by itself while batches are on their way, or right after one of several.
    pub alone_beside_batches: bool,
    /// Whether a batch lets whoever can run now join it first, as long as any do: where a batch costs much
    /// besides what is in it.
    pub lets_others_in: bool,
}

/// The calls that may go together.
pub struct Room<J> {
    habit: Habit,
    alone: AtomicUsize,
    batches: Arc<Batches>,
    jobs: Mutex<Option<mpsc::UnboundedSender<J>>>,
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

impl<J> fmt::Debug for Room<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("habit", &self.habit).finish_non_exhaustive()
    }
}

impl<J: Send + 'static> Room<J> {
    /// An empty one.
    #[must_use]
    pub fn new(habit: Habit) -> Self {
        Self { habit, alone: AtomicUsize::new(0), batches: Arc::default(), jobs: Mutex::default() }
    }

    /// The right to go alone, while nobody else does.
    pub fn alone(&self) -> Option<Alone<'_>> {
        let alone = Alone(&self.alone);
        let first = self.alone.fetch_add(1, Ordering::Relaxed) == 0;
        let beside = self.habit.alone_beside_batches || !self.batches.any();
        (first && beside).then_some(alone)
    }

    /// Puts a job into the next batch. Without a runtime it panics, as all calls do.
    pub fn join(&self, carrier: &Arc<impl Carrier<J>>, job: J) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
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
        tokio::spawn(run(Arc::downgrade(carrier), receiver, self.habit, batches));
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

/// Sends batches until the carrier is gone.
async fn run<J>(
    carrier: Weak<impl Carrier<J>>,
    mut jobs: mpsc::UnboundedReceiver<J>,
    habit: Habit,
    batches: Arc<Batches>,
) {
    let mut calls = FuturesUnordered::new();
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            job = jobs.recv(), if calls.len() < habit.batches => {
                let Some(carrier) = carrier.upgrade() else { return };
                let Some(job) = job else { return };
                batch.push(job);
                let under_way = UnderWay::new(&batches);
                loop {
                    let before = batch.len();
                    if habit.lets_others_in {
                        tokio::task::yield_now().await;
                    }
                    while batch.len() < MOST && let Ok(job) = jobs.try_recv() {
                        batch.push(job);
                    }
                    if !habit.lets_others_in || batch.len() == before || batch.len() == MOST {
                        break;
                    }
                }
                batches.last.store(batch.len(), Ordering::Relaxed);
                calls.push(async move {
                    carrier.carry(batch).await;
                    drop(under_way);
                });
            }
            Some(()) = calls.next() => {}
        }
    }
}
