//! One of several locks: the first that is free.

use std::time::Duration;

use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::{deadline, left, until};
use crate::{Blocked, Error, ErrorKind, Guard, Instant, Lock, TryAcquire};

/// Acquires one of several locks: the first in the given order that is free, otherwise the first that becomes free. Use it
/// for things that can replace each other: ports, devices, workspaces.
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

/// Several locks, of which one is about to be acquired. Made by [`any`].
#[derive(Clone)]
#[must_use = "nothing happens until `acquire`"]
pub struct Any {
    locks: Vec<Lock>,
    wait: Option<Duration>,
}

impl Any {
    /// Sets how long [`acquire`](Self::acquire) waits. Default: for ever. Zero makes one attempt for each. A shorter
    /// wait of one lock ends the wait for that one.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Tries each lock in the given order. If all are busy, waits in every queue for the first that is granted.
    ///
    /// *Guarantees*: exactly one is kept; [`Guard::name`] says which. The other places are given up. A second lock
    /// that is granted in the same moment is given back in the background.
    ///
    /// *Durations*: [`wait`](Self::wait) limits the whole call. The first round costs one call for each lock until one
    /// is free, the wait about three for each.
    ///
    /// *Errors*: `InvalidInput` before any store is touched, for no locks and for a lock whose own options are wrong;
    /// `Timeout` when the wait is over, with the reason in [`Error::blocked`]. If a store fails, it waits for the others.
    /// If all fail, it returns the error of the last one.
    ///
    /// *Cancel safety*: dropping it leaves every queue, and releases a grant that came meanwhile.
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
        let mut in_the_way = None;
        let round = first_free(self.locks.iter().cloned(), None, &mut in_the_way);
        match until(env, end, round).await {
            Some(Ok(Some(guard))) => return Ok(guard),
            Some(Err(error)) if at_once && in_the_way.is_none() => return Err(error),
            _ => {}
        }
        let left = left(env, end);
        if at_once || left == Some(Duration::ZERO) {
            return Err(self.none_in_time(in_the_way));
        }
        let locks = self.locks.iter().map(|lock| lock.clone().wait_at_most(left));
        first_granted(locks).await.map_err(|error| match error.kind() {
            ErrorKind::Timeout => self.none_in_time(error.blocked().cloned().or(in_the_way)),
            _ => error,
        })
    }

    fn none_in_time(&self, in_the_way: Option<Blocked>) -> Error {
        let message = format!("none of the {} locks was acquired in time", self.locks.len());
        let error = Error::new(ErrorKind::Timeout, message);
        match in_the_way {
            Some(blocked) => error.blocked_by(blocked),
            None => error,
        }
    }
}

/// Tries one after the other until one is free, and notes what is `in_the_way`. It goes on after a lock that fails, unless
/// `limit` is over.
///
/// # Errors
/// The last one, if none was free and some failed.
pub(super) async fn first_free(
    locks: impl Iterator<Item = Lock>,
    limit: Option<Instant>,
    in_the_way: &mut Option<Blocked>,
) -> Result<Option<Guard>, Error> {
    let mut failed = None;
    for lock in locks {
        let late = limit.is_some_and(|limit| lock.state().env.now() >= limit);
        match lock.try_acquire().await {
            Ok(TryAcquire::Acquired(guard)) => return Ok(Some(guard)),
            Ok(TryAcquire::Busy(busy)) => *in_the_way = Some(Blocked::Busy(busy)),
            Ok(TryAcquire::Quarantined(why)) => {
                in_the_way.get_or_insert(Blocked::Quarantined(why));
            }
            Err(error) if late => return Err(error),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(None), Err)
}

/// Waits for all, and keeps the first that is granted.
///
/// # Errors
/// If all fail: an error that says what was in the way, if there is one, otherwise the last.
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
