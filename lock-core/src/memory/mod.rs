//! The reference backend: locks in this process's memory. Read it to understand the contract.

mod backend;
mod store;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use self::store::Store;
use crate::{Env, Guarantees, Link, Promise, StoreSettings, SystemEnv};

/// A store in memory. Clones are connections to the same store.
#[derive(Clone)]
pub struct Memory {
    store: Arc<Mutex<Store>>,
    env: Arc<dyn Env>,
    number: u64,
}

/// Stores are told apart by their numbers: none is seen outside its process.
static STORES: AtomicU64 = AtomicU64::new(0);

impl Memory {
    /// How often a place must be heard of; a poll of its owner is its heartbeat.
    const HEARTBEAT: Duration = Duration::from_millis(500);
    /// So many places at the head of a queue are heard of that often; those behind them more seldom.
    const NEAR: usize = 8;
    const FAR_HEARTBEAT: Duration = Duration::from_secs(1);
    /// A place that was not heard of for this long is passed over.
    const PLACE_LIFE: Duration = Duration::from_secs(3);
    /// How long an abandoned owner is remembered: longer than any attempt is on its way.
    const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);
    /// How long a handed-over lock waits for its new owner's first renewal.
    const CLAIM: Duration = Duration::from_secs(2);
    /// The shortest lease.
    const SHORTEST_LEASE: Duration = Duration::from_millis(10);

    /// An empty store in the real world.
    #[must_use]
    pub fn new() -> Self {
        Self::with_env(Arc::new(SystemEnv))
    }

    /// An empty store with its clock from `env`.
    #[must_use]
    pub fn with_env(env: Arc<dyn Env>) -> Self {
        let mut promised =
            Guarantees::new(Self::SHORTEST_LEASE, StoreSettings::DEFAULT_LONGEST_LEASE);
        promised.exclusion = Promise::Holds { assuming: Vec::new() };
        promised.tokens = Promise::Holds { assuming: Vec::new() };
        promised.push = true;
        promised.fair = true;
        promised.raise = true;
        promised.expiry_slack = Duration::from_millis(20);
        promised.longest_poll = Self::FAR_HEARTBEAT;
        promised.dead_place_delay = Self::CLAIM;
        // Grants faster than one a microsecond push tokens ahead of the clock.
        promised.token_lead = Duration::from_secs(1);
        promised.link = Link::Local;
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        Self { store: Arc::new(Mutex::new(Store::new(promised))), env, number }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend as _, LockName, OwnerId, OwnerLabel, Release, Request};

    /// Minimum holds of names that nobody asks for again take no memory for ever.
    #[tokio::test]
    async fn memory_is_bounded_by_live_names() {
        let memory = Memory::new();
        let label = OwnerLabel::new("test").unwrap();
        let lease = Duration::from_secs(10);
        for number in 0..5_000_u32 {
            let name = LockName::new(format!("job {number}")).unwrap();
            let owner = OwnerId::from_bits(number.into());
            let request = Request::new(name, owner, label.clone(), lease, memory.env.now());
            let grant = memory.try_acquire(&request).await.unwrap().granted().unwrap();
            let how = Release { keep: Some(Duration::from_nanos(1)), next: None };
            memory.release(&grant, how).await.unwrap();
        }
        let names = memory.store().names().len();
        assert!(names <= 200, "{names}");
    }
}
