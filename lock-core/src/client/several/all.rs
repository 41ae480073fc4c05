//! Several locks at once: all or none.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};

use super::{Guards, deadline, left, until};
use crate::{
    Blocked, Env, Error, ErrorKind, Guard, Instant, Lock, LockName, LossReason,
    client::{acquire::blocked, observed::observed, state::ClientState},
};

/// Acquires all of several locks, or none. They may be in different stores.
///
/// All processes lock in the order of the names, so two that want the same locks in opposite orders do not wait for
/// each other.
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

/// Several locks about to be acquired together. Made by [`all`].
#[derive(Clone)]
#[must_use = "nothing happens until `acquire`"]
pub struct All {
    locks: Vec<Lock>,
    wait: Option<Duration>,
}

impl All {
    /// Sets how long [`acquire`](Self::acquire) waits for all of them together. Default: for ever. Zero makes one
    /// attempt for each. If a lock has a shorter wait of its own, that limits the wait for this lock.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Acquires the locks one after the other, in the order of their names.
    ///
    /// *Guarantees*: all or none. The client renews the locks that it holds while it waits for the others. When it
    /// returns, each of them is valid. Two `all` do not deadlock, in whatever order each got its locks: a process waits
    /// only for names above those that it holds.
    ///
    /// *Durations*: [`wait`](Self::wait) limits the whole call, from the end of a quarantine that a lock
    /// [waits for apart](Lock::wait_for_quarantine). It costs one call to the store for each lock that is free, one
    /// after the other. If a name is given twice, it also asks for each store's [identity](crate::Backend::identity).
    ///
    /// *Errors*: `InvalidInput` before any lock is asked for: no locks, one lock twice, a lock whose own options are
    /// wrong, or one name in two stores that have no identity to order them by (a pair of stores while a migration
    /// uses both has none). `Lost` if one was lost while the others were waited for. Otherwise as [`Lock::acquire`].
    /// The error names the lock. Whatever was acquired is released in the background.
    ///
    /// *Cancel safety*: dropping it releases everything, also a lock with a minimum hold.
    pub async fn acquire(self) -> Result<Guards, Error> {
        let Some(first) = self.locks.first() else {
            return Err(Error::new(ErrorKind::InvalidInput, "all needs at least 1 lock, not 0"));
        };
        let env = &*first.state().env;
        let at_once = self.wait == Some(Duration::ZERO);
        let mut end = deadline(env, self.wait);
        let ordered = in_order(&self.locks, end.filter(|_| !at_once)).await?;
        let mut taken = Taken(Guards(Vec::with_capacity(ordered.len())));
        // What used up the time, if there is none left to ask for the next one.
        let mut delayed: Option<Error> = None;
        for &at in &ordered {
            let (lock, name) = (&self.locks[at], self.locks[at].name()?);
            let left = left(env, end).filter(|_| !at_once);
            if left == Some(Duration::ZERO) {
                return Err(delayed.unwrap_or_else(|| blocked(name, None)));
            }
            let mut in_the_way = None;
            let acquire = self.acquire_one(lock, env, &mut end, &mut in_the_way);
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
                // The store had less time than any call is given.
                Err(error)
                    if left.is_some_and(|left| left < lock.state().options.call_timeout)
                        && error.kind() == ErrorKind::Timeout
                        && !error.is_not_acquired() =>
                {
                    return Err(delayed.unwrap_or(error));
                }
                Err(error) => return Err(error),
            }
            if in_the_way.is_some() {
                delayed = Some(blocked(name, in_the_way));
            }
        }
        // The last answer may have taken longer than an earlier lock was valid.
        if let Some(lost) = taken.0.iter().find(|guard| !guard.is_valid()) {
            return Err(lost_meanwhile(lost, lost.lost().await));
        }
        let taken = std::mem::take(&mut taken.0.0);
        let mut guards: Vec<_> = ordered.into_iter().zip(taken).collect();
        guards.sort_by_key(|(at, _)| *at);
        Ok(Guards(guards.into_iter().map(|(_, guard)| guard).collect()))
    }

    /// Acquires one. If it waits for a quarantine apart, the wait for all starts after that.
    async fn acquire_one(
        &self,
        lock: &Lock,
        env: &dyn Env,
        end: &mut Option<Instant>,
        in_the_way: &mut Option<Blocked>,
    ) -> Result<Guard, Error> {
        let acquire = pin!(async {
            let mut patience = lock.patience();
            loop {
                let lock = lock.clone().wait_at_most(left(env, *end));
                let result = lock.acquire_once(patience.is_apart(), in_the_way).await;
                match &result {
                    Err(error) if patience.again(env, error, lock.is_at_once()).await => {
                        *end = deadline(env, self.wait);
                    }
                    _ => return result,
                }
            }
        });
        observed(lock.state(), lock.name(), acquire).await
    }
}

/// The locks that are held before all are held. If it is dropped, it releases them in reverse order. Minimum holds do not
/// count: nobody has used the locks.
struct Taken(Guards);

impl Drop for Taken {
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

/// The order in which every process takes them: by name, then by the identity of the store.
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

/// The name of the lock's store, for two locks of one name.
async fn identity(lock: &Lock, name: &LockName, end: Option<Instant>) -> Result<String, Error> {
    let state = lock.state();
    let _in_flight = ClientState::begin(&**state)?;
    let limit = state.env.now() + state.options.call_timeout;
    let end = end.map_or(limit, |end| end.min(limit));
    match until(&*state.env, Some(end), state.backend.identity()).await {
        None => Err(Error::new(ErrorKind::Timeout, "the store did not tell its identity in time").on(name)),
        Some(Err(error)) if error.kind() == ErrorKind::Unsupported => Err(Error::new(
            ErrorKind::InvalidInput,
            "all cannot tell whether these are two locks or one given twice: the store has no identity",
        )
        .with_source(error)
        .on(name)),
        Some(told) => told.map_err(|error| error.on(name)),
    }
}
