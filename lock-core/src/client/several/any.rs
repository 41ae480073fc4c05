//! One of several locks: the first that is free.

use std::time::Duration;

use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::{deadline, until};
use crate::{Blocked, Error, ErrorKind, Guard, Lock, TryAcquire};

/// Acquires one of several locks: the first in the given order that is free, else the first that becomes free. For
/// things of which one is as good as another: ports, devices, workspaces.
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
    /// `Timeout` when the wait is over, with the reason in [`Error::blocked`]. A store that fails is left
    /// out while others are waited for; where all fail, the error of the last one.
    ///
    /// *Cancel safety*: dropping it gives every place up and releases a grant that came meanwhile.
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
        let acquired = until(env, end, async {
            let mut failed = None;
            for lock in &self.locks {
                match lock.clone().try_acquire().await {
                    Ok(TryAcquire::Acquired(guard)) => return Ok(guard),
                    Ok(TryAcquire::Busy(busy)) => in_the_way = Some(Blocked::Busy(busy)),
                    Ok(TryAcquire::Quarantined(why)) => {
                        in_the_way.get_or_insert(Blocked::Quarantined(why));
                    }
                    Err(error) => failed = Some(error),
                }
            }
            match failed {
                Some(error) if at_once && in_the_way.is_none() => Err(error),
                _ if at_once => Err(self.none_in_time(in_the_way.take())),
                _ => first_granted(self.locks.clone()).await,
            }
        })
        .await;
        acquired.unwrap_or_else(|| Err(self.none_in_time(in_the_way)))
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

/// Waits for all, and keeps the first that is granted.
///
/// # Errors
/// The last one, if all fail.
pub(super) async fn first_granted(locks: Vec<Lock>) -> Result<Guard, Error> {
    let mut waiting: FuturesUnordered<_> = locks.into_iter().map(Lock::acquire).collect();
    let mut failed = Error::new(ErrorKind::InvalidInput, "there is no lock to wait for");
    while let Some(result) = waiting.next().await {
        match result {
            Ok(guard) => return Ok(guard),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
