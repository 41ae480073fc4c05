//! Several locks at once: all or none.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};

use super::{Guards, deadline, left, until};
use crate::{
    Blocked, Env, Error, ErrorKind, Guard, Instant, Lock, LockName, LossReason,
    client::{acquire::blocked, acquire_events::with_events, state::ClientState},
};

/// Acquires all of several locks, or none. The locks may be in different stores.
///
/// Every process acquires in the order of the names. So two processes that list the same locks in
/// opposite orders do not deadlock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::Error> {
/// # let client = lock_core::LockClient::new(std::sync::Arc::new(lock_core::Memory::new()));
/// let guards = lock_core::all([client.lock("account/17"), client.lock("account/4")]).acquire().await?;
/// println!("the tokens are {} and {}", guards[0].token(), guards[1].token());
/// guards.release().await?;
/// # Ok(())
/// # }
/// ```
pub fn all(locks: impl IntoIterator<Item = Lock>) -> All {
    All { locks: locks.into_iter().collect(), wait: None }
}

/// Several locks to acquire together. Made by [`all`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `acquire`"]
pub struct All {
    locks: Vec<Lock>,
    wait: Option<Duration>,
}

impl All {
    /// Sets how long [`acquire`](Self::acquire) waits for all locks together. Default: for ever.
    /// Zero makes one attempt for each. If a lock has a shorter wait of its own, that limits the
    /// wait for this lock.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Acquires the locks one after the other, in the order of their names.
    ///
    /// # Guarantees
    ///
    /// All or none. The client renews the locks that it holds while it waits for the others. When
    /// the call returns, every lock is valid. Two calls do not deadlock, because a process waits
    /// only for names above those that it holds.
    ///
    /// # Durations
    ///
    /// [`wait`](Self::wait) limits the whole call. If a lock [waits for a
    /// quarantine](Lock::wait_for_quarantine), it counts from the end of that quarantine. A free
    /// lock costs one call to the store. If two locks have the same name, the client also asks for
    /// the [identity](crate::Backend::identity) of their stores.
    ///
    /// # Errors
    ///
    /// `InvalidInput` before any attempt: no locks, the same lock twice, invalid options of a lock,
    /// or one name in two stores without an identity to order them by (such as the two stores of a
    /// migration in the phase `both`). `Lost` if a lock was lost while the client waited for the
    /// others. Otherwise as [`Lock::acquire`]. The error names the lock. The client releases in the
    /// background what it has acquired.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases everything, even a lock with a minimum hold.
    pub async fn acquire(self) -> Result<Guards, Error> {
        let Some(first) = self.locks.first() else {
            return Err(Error::new(ErrorKind::InvalidInput, "all needs at least 1 lock, not 0"));
        };
        let env = &*first.state().env;
        let at_once = self.wait == Some(Duration::ZERO);
        let mut end = deadline(env, self.wait);
        let ordered = in_order(&self.locks, end.filter(|_| !at_once)).await?;
        let mut taken = PartialAcquire(Guards(Vec::with_capacity(ordered.len())));
        // The lock that used up the wait, if no time is left for the next one.
        let mut delayed: Option<Error> = None;
        for &at in &ordered {
            let (lock, name) = (&self.locks[at], self.locks[at].name()?);
            let left = left(env, end).filter(|_| !at_once);
            if left == Some(Duration::ZERO) {
                return Err(delayed.unwrap_or_else(|| blocked(name, None)));
            }
            let mut blocked_by = None;
            let acquire = self.acquire_one(lock, env, &mut end, &mut blocked_by);
            let result = if taken.0.is_empty() {
                acquire.await
            } else {
                match select(pin!(acquire), pin!(taken.0.lost())).await {
                    Either::Left((result, _)) => result,
                    Either::Right(((lost, why), _)) => {
                        return Err(lost_meanwhile(&taken.0[lost], why));
                    }
                }
            };
            match result {
                Ok(guard) => taken.0.0.push(guard),
                // The store had less time than the time limit of a call.
                Err(error)
                    if left.is_some_and(|left| left < lock.state().options.call_timeout)
                        && error.kind() == ErrorKind::Timeout
                        && !error.is_not_acquired() =>
                {
                    return Err(delayed.unwrap_or(error));
                }
                Err(error) => return Err(error),
            }
            if blocked_by.is_some() {
                delayed = Some(blocked(name, blocked_by));
            }
        }
        // An earlier lock may have been lost during the last call.
        if let Some(lost) = taken.0.iter().find(|guard| !guard.is_valid()) {
            return Err(lost_meanwhile(lost, lost.lost().await));
        }
        let taken = std::mem::take(&mut taken.0.0);
        let mut guards: Vec<_> = ordered.into_iter().zip(taken).collect();
        guards.sort_by_key(|(at, _)| *at);
        Ok(Guards(guards.into_iter().map(|(_, guard)| guard).collect()))
    }

    /// Acquires one lock. If it waits for a quarantine separately, the wait for all locks starts
    /// again after that.
    async fn acquire_one(
        &self,
        lock: &Lock,
        env: &dyn Env,
        end: &mut Option<Instant>,
        blocked_by: &mut Option<Blocked>,
    ) -> Result<Guard, Error> {
        let acquire = pin!(async {
            let mut quarantine_wait = lock.quarantine_wait();
            loop {
                let lock = lock.clone().wait_at_most(left(env, *end));
                let result = lock.acquire_once(quarantine_wait.is_separate(), blocked_by).await;
                match &result {
                    Err(error)
                        if quarantine_wait.retry(env, error, lock.is_single_attempt()).await =>
                    {
                        *end = deadline(env, self.wait);
                    }
                    _ => return result,
                }
            }
        });
        with_events(lock.state(), lock.name(), acquire).await
    }
}

/// The locks that are held before all are held. If this is dropped, it releases them in reverse
/// order, without their minimum holds, because nobody has used them.
struct PartialAcquire(Guards);

impl Drop for PartialAcquire {
    fn drop(&mut self) {
        while let Some(guard) = self.0.0.pop() {
            guard.held().set_unused();
        }
    }
}

fn lost_meanwhile(guard: &Guard, why: LossReason) -> Error {
    Error::new(ErrorKind::Lost, "the lock was lost while others were waited for")
        .with_source(why)
        .on(guard.name())
}

/// The order in which every process acquires: by name, then by the identity of the store.
async fn in_order(locks: &[Lock], end: Option<Instant>) -> Result<Vec<usize>, Error> {
    let mut keys: Vec<(LockName, String, usize)> = Vec::with_capacity(locks.len());
    for (at, lock) in locks.iter().enumerate() {
        keys.push((lock.checked()?.clone(), String::new(), at));
    }
    keys.sort();
    for at in 0..keys.len() {
        let name = &keys[at].0;
        let is_twin =
            |other: Option<&(LockName, _, _)>| other.is_some_and(|other| other.0 == *name);
        if is_twin(keys.get(at + 1)) || (at > 0 && is_twin(keys.get(at - 1))) {
            keys[at].1 = identity(&locks[keys[at].2], name, end).await?;
        }
    }
    keys.sort();
    if let Some(twice) =
        keys.windows(2).find(|pair| (&pair[0].0, &pair[0].1) == (&pair[1].0, &pair[1].1))
    {
        let message = "all needs each lock once; this one was given twice";
        return Err(Error::new(ErrorKind::InvalidInput, message).on(&twice[0].0));
    }
    Ok(keys.into_iter().map(|(_, _, at)| at).collect())
}

/// The identity of the lock's store, which distinguishes two locks of one name.
async fn identity(lock: &Lock, name: &LockName, end: Option<Instant>) -> Result<String, Error> {
    let state = lock.state();
    let _in_flight = ClientState::begin(&**state)?;
    let limit = state.env.now() + state.options.call_timeout;
    let end = end.map_or(limit, |end| end.min(limit));
    match until(&*state.env, Some(end), state.backend.identity()).await {
        None => Err(Error::new(ErrorKind::Timeout, "the store did not return its identity in time").on(name)),
        Some(Err(error)) if error.kind() == ErrorKind::Unsupported => Err(Error::new(
            ErrorKind::InvalidInput,
            "all cannot tell whether these are two locks or one given twice: the store has no identity",
        )
        .with_source(error)
        .on(name)),
        Some(identity) => identity.map_err(|error| error.on(name)),
    }
}
