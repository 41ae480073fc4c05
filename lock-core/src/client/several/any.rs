//! One of several locks: the first that is free.

use std::time::Duration;

use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::{deadline, left, until};
use crate::{Blocked, Error, ErrorKind, Guard, Instant, Lock, TryAcquire};

/// Acquires one of several locks: the first free one in the given order, otherwise the first that
/// becomes free.
///
/// Use it for resources that can replace each other, such as ports, devices or workspaces.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::Error> {
/// # let client = lock_core::LockClient::new(std::sync::Arc::new(lock_core::Memory::new()));
/// let guard = lock_core::any(["gpu/0", "gpu/1"].map(|gpu| client.lock(gpu))).acquire().await?;
/// println!("use {}", guard.name());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
pub fn any(locks: impl IntoIterator<Item = Lock>) -> Any {
    Any { locks: locks.into_iter().collect(), wait: None }
}

/// Several locks, of which one is to be acquired. Made by [`any`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `acquire`"]
pub struct Any {
    locks: Vec<Lock>,
    wait: Option<Duration>,
}

impl Any {
    /// Sets how long [`acquire`](Self::acquire) waits. Default: for ever. Zero makes one attempt
    /// for each lock. If a lock has a shorter wait of its own, that limits the wait for this lock.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Tries each lock in the given order. If all are busy, waits in every queue for the first
    /// grant.
    ///
    /// # Guarantees
    ///
    /// The caller gets exactly one lock; [`Guard::name`] says which. The client leaves the other
    /// queues. If a second lock is granted at the same moment, the client releases it in the
    /// background.
    ///
    /// # Durations
    ///
    /// [`wait`](Self::wait) limits the whole call. The first round costs one call for each lock
    /// until one is free; the wait costs about three calls for each.
    ///
    /// # Errors
    ///
    /// `InvalidInput` before anything is sent to a store, if there are no locks or a lock has
    /// invalid options; `Timeout` when the wait is over, with the reason in [`Error::blocked`]. If
    /// a store fails, the client waits for the other locks. If all fail, it returns the last error.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the client leaves every queue and releases a grant that came
    /// meanwhile.
    pub async fn acquire(self) -> Result<Guard, Error> {
        let Some(first) = self.locks.first() else {
            return Err(Error::new(ErrorKind::InvalidInput, "any needs at least 1 lock, not 0"));
        };
        for lock in &self.locks {
            lock.checked()?;
        }
        let env = &*first.state().env;
        let at_once = self.wait == Some(Duration::ZERO);
        let end = deadline(env, self.wait.filter(|_| !at_once));
        let mut blocked_by = None;
        let round = first_free(self.locks.iter().cloned(), None, &mut blocked_by);
        match until(env, end, round).await {
            Some(Ok(Some(guard))) => return Ok(guard),
            Some(Err(error)) if at_once && blocked_by.is_none() => return Err(error),
            _ => {}
        }
        let left = left(env, end);
        if at_once || left == Some(Duration::ZERO) {
            return Err(self.none_in_time(blocked_by));
        }
        let locks = self.locks.iter().map(|lock| lock.clone().wait_at_most(left));
        first_granted(locks).await.map_err(|error| match error.kind() {
            ErrorKind::Timeout => self.none_in_time(error.blocked().cloned().or(blocked_by)),
            _ => error,
        })
    }

    fn none_in_time(&self, blocked_by: Option<Blocked>) -> Error {
        let message = format!("none of the {} locks was acquired in time", self.locks.len());
        let error = Error::new(ErrorKind::Timeout, message);
        match blocked_by {
            Some(blocked) => error.blocked_by(blocked),
            None => error,
        }
    }
}

/// Tries one lock after the other until one is free, and records what blocked them in `blocked_by`.
/// After an error it tries the next lock, unless `limit` is over.
///
/// # Errors
/// The last error, if no lock was free and some failed.
pub(super) async fn first_free(
    locks: impl Iterator<Item = Lock>,
    limit: Option<Instant>,
    blocked_by: &mut Option<Blocked>,
) -> Result<Option<Guard>, Error> {
    let mut failed = None;
    for lock in locks {
        let late = limit.is_some_and(|limit| lock.state().env.now() >= limit);
        match lock.try_acquire().await {
            Ok(TryAcquire::Acquired(guard)) => return Ok(Some(guard)),
            Ok(TryAcquire::Busy(busy)) => *blocked_by = Some(Blocked::Busy(busy)),
            Ok(TryAcquire::Quarantined(why)) => {
                blocked_by.get_or_insert(Blocked::Quarantined(why));
            }
            Err(error) if late => return Err(error),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(None), Err)
}

/// Waits for all locks, and keeps the first that is granted.
///
/// # Errors
/// If all fail: an error that says what blocked a lock, if there is one, otherwise the last error.
pub(super) async fn first_granted(locks: impl Iterator<Item = Lock>) -> Result<Guard, Error> {
    let mut waiting: FuturesUnordered<_> = locks.map(Lock::acquire).collect();
    let mut failed = Error::new(ErrorKind::InvalidInput, "there is no lock to wait for");
    while let Some(result) = waiting.next().await {
        match result {
            Ok(guard) => return Ok(guard),
            Err(_) if failed.is_not_acquired() => {}
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
