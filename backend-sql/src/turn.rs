//! Waiting for a name in a database that pushes nothing: look now and then, and ask when it is free.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{Error, LockName, Request, Signal, SystemEnv, Turn, jittered};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::dialect::Dialect;

/// How often a waiting process looks. A look takes no write lock.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// The names that this process waits for. Of the turns of one name one looks, the oldest: what a
/// free lock costs the store does not grow with their number.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<HashMap<LockName, Weak<Semaphore>>>);

impl Lines {
    /// With more names than this, those that nobody waits for any more are forgotten.
    const MANY: usize = 64;

    /// The end of the line of `name`.
    fn join(&self, name: &LockName) -> Arc<Semaphore> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= Self::MANY {
            lines.retain(|_, line| line.strong_count() > 0);
        }
        if let Some(line) = lines.get(name).and_then(Weak::upgrade) {
            return line;
        }
        let line = Arc::new(Semaphore::new(1));
        lines.insert(name.clone(), Arc::downgrade(&line));
        line
    }
}

/// A turn that looks for itself.
#[derive(Debug)]
pub(crate) struct Looking<D> {
    dialect: Arc<D>,
    request: Request,
    line: Arc<Semaphore>,
    first: Option<OwnedSemaphorePermit>,
}

impl<D: Dialect> Looking<D> {
    pub(crate) fn new(dialect: Arc<D>, lines: &Lines, request: Request) -> Self {
        let line = lines.join(&request.name);
        Self { dialect, request, line, first: None }
    }
}

#[async_trait]
impl<D: Dialect> Turn for Looking<D> {
    async fn next(&mut self) -> Signal {
        if self.first.is_none() {
            // It is never closed. Whoever gives up while in line loses its place in it, no more.
            self.first = Arc::clone(&self.line).acquire_owned().await.ok();
        }
        loop {
            tokio::time::sleep(jittered(&SystemEnv, LOOK)).await;
            match self.dialect.is_free(&self.request.name).await {
                Ok(true) => return Signal::Recheck,
                Ok(false) => {}
                // The core's own poll is behind this, and reports what it meets.
                Err(error) => {
                    tracing::debug!(name = %self.request.name, %error, "look failed");
                    tokio::time::sleep(LOOK * 20).await;
                }
            }
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        // There is no place to give up, but the answer to an attempt may have been lost.
        self.dialect.abandon(&self.request).await
    }
}
