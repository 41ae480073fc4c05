//! A counting semaphore with one lock for each permit.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    any::{first_free, first_granted},
    deadline, left, until,
};
use crate::{
    Blocked, Env, Error, ErrorKind, Guard, Lock, LockClient, LockName, Quarantined, TryAcquire,
    client::{
        acquire::blocked,
        waiting::{Limit, QuarantineWait},
    },
    tunables::{DOOR_LEASE, MOST_PERMITS, PROBES},
};

impl LockClient {
    /// A semaphore: at most `permits` holders of `name` at a time. An invalid name, or a number of
    /// permits that is not between 1 and 128, is an error of [`Semaphore::acquire`] and
    /// [`Semaphore::try_acquire`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::Error> {
    /// # let client = lock_core::LockClient::new(std::sync::Arc::new(lock_core::Memory::new()));
    /// let permit = client.semaphore("exports", 3).acquire().await?;
    /// println!("this is {} of exports/0 to exports/2", permit.name());
    /// permit.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn semaphore<N>(&self, name: N, permits: u32) -> Semaphore
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        Semaphore { slot: self.lock(name), permits, wait: None, quarantine: None }
    }
}

/// A semaphore and the options to acquire a permit with. Made by [`LockClient::semaphore`].
///
/// With N permits, the *slots* are the locks `name/0` to `name/N-1`. A permit is the guard of a
/// slot. It has its own lease and its own fencing token, which fences that slot only. A client that
/// finds no free slot waits at the *door*, the lock `name`. The client that holds the door waits
/// for all slots. So a semaphore has the promises of plain locks on every store.
///
/// All clients must use the same number of permits. Otherwise there are as many permits as the
/// largest number, and a client with a smaller number that waits at the door keeps the others from
/// the slots above its number. Do not use the name, or the names of the slots, for other locks.
#[derive(Clone)]
#[must_use = "nothing happens until `acquire` or `try_acquire`"]
pub struct Semaphore {
    /// The options of a slot, under the semaphore's own name.
    slot: Lock,
    permits: u32,
    wait: Option<Duration>,
    quarantine: Option<Limit>,
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Semaphore");
        shown.field("permits", &self.permits).field("slot", &self.slot).field("wait", &self.wait);
        shown.finish_non_exhaustive()
    }
}

impl Semaphore {
    /// The most permits that a semaphore may have.
    pub const MOST_PERMITS: u32 = MOST_PERMITS;

    /// Sets the lease of a permit, as [`Lock::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.slot = self.slot.lease(lease);
        self
    }

    /// Sets how long [`acquire`](Self::acquire) waits. Default: for ever. Zero is as
    /// [`try_acquire`](Self::try_acquire).
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets how long [`acquire`](Self::acquire) waits for the end of a quarantine, before
    /// [`wait`](Self::wait) starts, as [`Lock::wait_for_quarantine`].
    pub fn wait_for_quarantine<F>(mut self, limit: F) -> Self
    where
        F: Fn(&Quarantined) -> Duration + Send + Sync + 'static,
    {
        self.quarantine = Some(Arc::new(limit));
        self
    }

    /// Keeps the permit for at least this long, as [`Lock::at_least`].
    pub fn at_least(mut self, span: Duration) -> Self {
        self.slot = self.slot.at_least(span);
        self
    }

    /// Ends the permit this long after the acquire, as [`Lock::hold_at_most`].
    pub fn hold_at_most(mut self, span: Duration) -> Self {
        self.slot = self.slot.hold_at_most(span);
        self
    }

    /// Tries every slot once, and does not wait.
    ///
    /// # Guarantees
    ///
    /// It answers `Busy` only if every slot was busy when it was tried. It skips a slot whose call
    /// fails. If the store is fair, it can pass waiting clients only while the door changes hands,
    /// because the client at the door is in the queue of every slot.
    ///
    /// # Durations
    ///
    /// One call for each slot until one is free, each as [`Lock::try_acquire`]. After the client's
    /// `call_timeout` it ends with the first call that fails.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`].
    pub async fn try_acquire(self) -> Result<TryAcquire, Error> {
        self.check()?;
        let mut blocked_by = None;
        let acquired = self.probe(self.permits, &mut blocked_by).await?;
        match (acquired, blocked_by) {
            (Some(permit), _) => Ok(TryAcquire::Acquired(permit)),
            (None, Some(Blocked::Quarantined(why))) => Ok(TryAcquire::Quarantined(why)),
            (None, Some(Blocked::Busy(busy))) => Ok(TryAcquire::Busy(busy)),
            (None, None) => Err(self.refusal()),
        }
    }

    /// Acquires a permit: tries two slots, then waits at the door, and then for all slots.
    ///
    /// # Guarantees
    ///
    /// Never more than `permits` holders, if the store promises exclusion. If the store is fair,
    /// clients get permits in the order in which they came to the door. But a new client may find a
    /// slot while the door changes hands.
    ///
    /// # Durations
    ///
    /// [`wait`](Self::wait) limits the whole call;
    /// [`wait_for_quarantine`](Self::wait_for_quarantine) may add to it. While most slots are free,
    /// a permit costs one or two calls to the store. A wait costs about four calls for each slot.
    /// The permit of a crashed client is free when its lease is over. A client that crashes at the
    /// door delays the others by 3 s, or by the store's shortest lease if that is longer. Like any
    /// crashed waiter, it also delays them by the store's [`dead_waiter_delay`](crate::Guarantees).
    /// If the last attempt of the crashed client reaches the store late, the store may still grant
    /// it a slot, for the lease of a permit.
    ///
    /// # Errors
    ///
    /// `InvalidInput` before anything is sent to the store; otherwise as [`Lock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the client leaves all queues and releases what was granted
    /// meanwhile.
    pub async fn acquire(self) -> Result<Guard, Error> {
        self.check()?;
        let env = &*self.slot.state().env;
        let mut quarantine_wait = QuarantineWait::new(self.quarantine.clone());
        let at_once = self.wait == Some(Duration::ZERO);
        loop {
            let result = self.acquire_once(env, at_once, quarantine_wait.is_separate()).await;
            match &result {
                Err(error) if quarantine_wait.retry(env, error, at_once).await => {}
                _ => return result.inspect(Guard::mark_permit),
            }
        }
    }

    /// The same. If the caller waits for a quarantine separately (`separate`), a quarantine found
    /// by a slot is an error at once.
    async fn acquire_once(
        &self,
        env: &dyn Env,
        at_once: bool,
        separate: bool,
    ) -> Result<Guard, Error> {
        let name = self.slot.name()?;
        let end = deadline(env, self.wait);
        let mut blocked_by = None;
        let probes = if at_once { self.permits } else { PROBES };
        let first = self.probe(probes, &mut blocked_by);
        match until(env, end.filter(|_| !at_once), first).await {
            Some(Ok(Some(permit))) => return Ok(permit),
            // If the store is unreachable, the acquire of the door retries.
            Some(Err(error)) if at_once || !error.is_retryable() => return Err(error),
            _ => {}
        }
        let quarantined = separate && matches!(blocked_by, Some(Blocked::Quarantined(_)));
        if at_once || quarantined || left(env, end) == Some(Duration::ZERO) {
            return Err(blocked(name, blocked_by));
        }
        let door = match self.door().wait_at_most(left(env, end)).acquire().await {
            // Name the holder of a slot, not the client at the door, which has no permit.
            Err(error) if error.kind() == ErrorKind::Timeout && blocked_by.is_some() => {
                return Err(blocked(name, blocked_by));
            }
            door => door?,
        };
        // One after the other, so that it does not acquire several free slots.
        let permit = until(env, end, self.probe(self.permits, &mut blocked_by)).await;
        let permit = match (permit, left(env, end)) {
            (Some(Ok(Some(permit))), _) => Ok(permit),
            (_, Some(Duration::ZERO)) => Err(blocked(name, blocked_by)),
            (_, left) => {
                let waits = first_granted(self.slots().map(|slot| slot.wait_at_most(left))).await;
                waits.map_err(|error| match error.kind() {
                    ErrorKind::Timeout => blocked(name, error.blocked().cloned().or(blocked_by)),
                    _ => error,
                })
            }
        };
        // Released in the background: the next client enters while this one returns.
        drop(door);
        permit
    }

    /// Tries this number of slots.
    async fn probe(
        &self,
        slots: u32,
        blocked_by: &mut Option<Blocked>,
    ) -> Result<Option<Guard>, Error> {
        let state = self.slot.state();
        let limit = state.env.now() + state.options.call_timeout;
        first_free(self.slots().take(slots as usize), Some(limit), blocked_by).await
    }

    /// All slots, each once, in a random order.
    fn slots(&self) -> impl Iterator<Item = Lock> + '_ {
        let bits = self.slot.state().env.random();
        let first = (bits % u128::from(self.permits)) as u32;
        let step = coprime((bits >> 64) as u32 % self.permits, self.permits);
        (0..self.permits).map(move |at| {
            let at = (first + at * step) % self.permits;
            self.slot.renamed(self.slot_name(at))
        })
    }

    fn slot_name(&self, at: u32) -> Result<LockName, Error> {
        LockName::new(format!("{}/{at}", self.slot.name()?))
    }

    /// The lock that lets one client at a time wait for the slots. Its lease is short, because a
    /// client that crashes there keeps the others from free slots. A short lease is safe: two
    /// clients at the door only cause more load.
    fn door(&self) -> Lock {
        let shortest = self.slot.state().backend.guarantees().shortest_lease;
        self.slot.for_a_door(DOOR_LEASE.max(shortest))
    }

    fn check(&self) -> Result<(), Error> {
        let name = self.slot.checked()?;
        if !(1..=MOST_PERMITS).contains(&self.permits) {
            return Err(self.refusal().on(name));
        }
        self.slot_name(self.permits - 1).map(drop)
    }

    fn refusal(&self) -> Error {
        let message = format!("permits {} must be between 1 and {MOST_PERMITS}", self.permits);
        Error::new(ErrorKind::InvalidInput, message)
    }
}

/// The next number, from `start` on, that has no common factor with `of`.
fn coprime(start: u32, of: u32) -> u32 {
    let gcd = |mut a: u32, mut b: u32| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (start.max(1)..).find(|step| gcd(*step, of) == 1).unwrap_or(1)
}
