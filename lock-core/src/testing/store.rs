//! What a test does to its store.

use std::{sync::Arc, time::Duration};

use super::{
    backend::{FaultyMemory, Operation},
    clock::TokioClock,
};
use crate::{
    ClientOptions, Env, Error, ErrorKind, LockClient, LockName, LossReason, Memory,
    client::WeakClient, sync::Mutex,
};

/// A store in this process's memory for tests: locks in it are lost, refused, delayed and failed as the test says.
///
/// Its clients are ordinary clients with all their renewals, queues and guards. Each is like a process of its own.
/// Clones are the same store.
///
/// The store and its clients use tokio's clock. In a test with paused time (`#[tokio::test(start_paused = true)]`,
/// tokio's feature `test-util`) hours of holding pass at once. Make the store inside the test's runtime.
///
/// ```
/// use leasehold::{ErrorKind, LockName, LossReason, testing::TestStore};
/// # use lock_core as leasehold;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let store = TestStore::new();
/// let client = store.client();
/// let guard = client.lock("nightly").acquire().await?;
///
/// store.lose(&LockName::new("nightly")?);
/// assert_eq!(guard.lost().await, LossReason::Gone);
/// assert!(!guard.is_valid());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TestStore {
    backend: Arc<FaultyMemory>,
    clock: Arc<dyn Env>,
    clients: Arc<Mutex<Vec<WeakClient>>>,
}

impl TestStore {
    /// An empty store without faults.
    #[must_use]
    pub fn new() -> Self {
        let clock: Arc<dyn Env> = Arc::new(TokioClock::new());
        let memory = Memory::with_env(Arc::clone(&clock));
        Self { backend: Arc::new(FaultyMemory::new(memory)), clock, clients: Arc::default() }
    }

    /// A new client with the default options. Two clients are like two processes.
    #[must_use]
    pub fn client(&self) -> LockClient {
        self.noted(LockClient::in_env(
            self.backend.clone(),
            self.clock.clone(),
            ClientOptions::default(),
        ))
    }

    /// A new client with these options.
    ///
    /// # Errors
    /// `InvalidInput`, naming the option, as [`ClientOptions::check`].
    pub fn client_with(&self, options: ClientOptions) -> Result<LockClient, Error> {
        options.check()?;
        Ok(self.noted(LockClient::in_env(self.backend.clone(), self.clock.clone(), options)))
    }

    fn noted(&self, client: LockClient) -> LockClient {
        self.clients.lock().push(client.downgrade());
        client
    }

    /// Takes the lock from its holder, as when the store loses it. The holder's guard is lost when this returns, with
    /// the reason `Gone`, or `TakenOver` if a waiter has got the lock. Returns whether anybody held it.
    ///
    /// The faults of the store do not matter to it.
    pub fn lose(&self, name: &LockName) -> bool {
        let Some((owner, taken)) = self.backend.memory.take_away(name) else { return false };
        let reason = if taken { LossReason::TakenOver } else { LossReason::Gone };
        for client in self.clients.lock().iter() {
            client.lose(name, owner, reason);
        }
        true
    }

    /// The next `attempts` to take a lock are refused, as if somebody else held it. A waiter tries again after 100 ms.
    /// It adds to the refusals that are left from an earlier call.
    pub fn refuse_next(&self, attempts: usize) {
        let mut faults = self.backend.faults.lock();
        faults.refusals = faults.refusals.saturating_add(attempts);
    }

    /// The next call of this operation fails with an error of this kind, and changes nothing in the store. Several
    /// such failures come one after the other.
    ///
    /// A client repeats some calls by itself, so that one failure need not be seen: see
    /// [`set_available`](Self::set_available) for failures that last.
    pub fn fail_next(&self, operation: Operation, kind: ErrorKind) {
        self.backend.faults.lock().failures.entry(operation).or_default().push_back(kind);
    }

    /// Whether the store can be reached; at first it can. If not, all calls fail with `Unavailable`. Renewals fail
    /// then, too: guards are lost with the reason `Unreachable` when their leases are over.
    pub fn set_available(&self, available: bool) {
        self.backend.faults.lock().down = !available;
    }

    /// Each call takes so much longer from now on, before the store carries it out. Default: 0 s.
    ///
    /// A client gives a call up after its `call_timeout` (5 s unless set), or after three times that where the call is for a
    /// waiter's place. A grant that comes later is released.
    pub fn delay(&self, span: Duration) {
        self.backend.faults.lock().delay = span;
    }
}

impl Default for TestStore {
    fn default() -> Self {
        Self::new()
    }
}
