//! Waiting for names in a database that pushes nothing: look now and then, and ask for what is free.

use std::{
    collections::HashMap,
    sync::{
        Arc, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use lock_core::{Error, LockName, Mutex, Request, Signal, SystemEnv, Waiter, jittered};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::{
    dialect::Dialect,
    gate,
    tunables::{LOOK, LOOK_AFTER_FAILURE, NAMES_PER_LOOK},
};

/// The names that this process waits for. One task looks at all of them as long as somebody waits for any: what
/// waiting costs the store grows only with each hundred of names.
#[derive(Debug)]
pub(crate) struct PollQueues<D> {
    dialect: Arc<D>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lines: HashMap<LockName, Weak<PollQueue>>,
    /// The task that looks has what this is of. It may end with its runtime: then the next waiter on another starts
    /// the next.
    looking: Weak<()>,
}

/// Those who wait for one name. The oldest hears of it: what a free lock costs the store does not grow with their
/// number.
#[derive(Debug)]
struct PollQueue {
    turns: Arc<Semaphore>,
    /// Whether a waiter listens. One that asks the store does not.
    listens: AtomicBool,
    free: Notify,
}

impl<D: Dialect> PollQueues<D> {
    pub(crate) fn new(dialect: Arc<D>) -> Self {
        Self { dialect, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The end of the line of `name`.
    fn join(&self, name: &LockName) -> Arc<PollQueue> {
        let mut state = self.state();
        if let Some(line) = state.lines.get(name).and_then(Weak::upgrade) {
            return line;
        }
        let line = Arc::new(PollQueue {
            turns: Arc::new(Semaphore::new(1)),
            listens: AtomicBool::new(false),
            free: Notify::new(),
        });
        state.lines.insert(name.clone(), Arc::downgrade(&line));
        line
    }

    /// Makes sure that somebody looks.
    fn start(self: &Arc<Self>) {
        let mut state = self.state();
        if state.looking.strong_count() == 0 {
            let looking = Arc::new(());
            state.looking = Arc::downgrade(&looking);
            tokio::spawn(look(Arc::clone(self), looking));
        }
    }

    /// The lines of which somebody listens; `None` when there are no lines any more, and the task that looks is to end.
    fn listening(&self) -> Option<Vec<(LockName, Arc<PollQueue>)>> {
        let mut state = self.state();
        state.lines.retain(|_, line| line.strong_count() > 0);
        if state.lines.is_empty() {
            // In this step: the next waiter starts another.
            state.looking = Weak::new();
            return None;
        }
        let lines = state.lines.iter().filter_map(|(name, line)| {
            let line = line.upgrade().filter(|line| line.listens.load(Ordering::Relaxed))?;
            Some((name.clone(), line))
        });
        Some(lines.collect())
    }
}

async fn look<D: Dialect>(all: Arc<PollQueues<D>>, _looking: Arc<()>) {
    loop {
        tokio::time::sleep(jittered(&SystemEnv, LOOK)).await;
        let Some(lines) = all.listening() else { return };
        for some in lines.chunks(NAMES_PER_LOOK) {
            let names: Vec<_> = some.iter().map(|(name, _)| name).collect();
            match all.dialect.free(&names).await {
                Ok(free) => {
                    let told = some.iter().zip(free).filter(|(_, free)| *free);
                    told.for_each(|((_, line), _)| line.free.notify_one());
                }
                // The core's own poll is behind this, and reports what it meets.
                Err(error) => {
                    tracing::debug!(names = names.len(), %error, "look failed");
                    tokio::time::sleep(LOOK_AFTER_FAILURE).await;
                }
            }
        }
    }
}

/// A waiter that hears of its name by looks.
#[derive(Debug)]
pub(crate) struct Polling<D> {
    lines: Arc<PollQueues<D>>,
    request: Request,
    line: Arc<PollQueue>,
    first: Option<OwnedSemaphorePermit>,
}

impl<D: Dialect> Polling<D> {
    pub(crate) fn new(lines: Arc<PollQueues<D>>, request: Request) -> Self {
        let line = lines.join(&request.name);
        lines.start();
        Self { lines, request, line, first: None }
    }
}

/// That somebody listens.
struct Listens<'a>(&'a PollQueue);

impl<'a> Listens<'a> {
    fn to(line: &'a PollQueue) -> Self {
        line.listens.store(true, Ordering::Relaxed);
        Self(line)
    }
}

impl Drop for Listens<'_> {
    fn drop(&mut self) {
        self.0.listens.store(false, Ordering::Relaxed);
    }
}

#[async_trait]
impl<D: Dialect> Waiter for Polling<D> {
    async fn next(&mut self) -> Signal {
        if self.first.is_none() {
            // It is never closed. A waiter that gives up while in line only leaves the line.
            self.first = Arc::clone(&self.line.turns).acquire_owned().await.ok();
        }
        let listens = Listens::to(&self.line);
        self.lines.start();
        listens.0.free.notified().await;
        Signal::Recheck
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        // There is no place to give up, but the answer to an attempt may have been lost.
        let _pass = gate::attempt(self.lines.dialect.gate()).await?;
        self.lines.dialect.abandon(&self.request).await
    }
}
