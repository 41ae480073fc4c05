//! The store that a test controls.

use std::{sync::Arc, time::Duration};

use super::{
    backend::{FaultyMemory, Operation},
    clock::TokioClock,
};
use crate::{
    ClientOptions, Env, Error, ErrorKind, LockClient, LockName, LossReason, Memory,
    client::WeakClient, sync::Mutex,
};

/// A store in this process's memory for tests. The test decides which locks are lost, refused or
/// delayed, and which calls fail.
///
/// Its clients are ordinary clients, with renewals, queues and guards. Each client behaves like
/// another process. Clones are the same store.
///
/// The store and its clients use tokio's clock. In a test with paused time
/// (`#[tokio::test(start_paused = true)]`, tokio's feature `test-util`) hours pass at once. Create
/// the store inside the test's runtime.
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
        let clock: Arc<dyn Env> = Arc::new(TokioClock::begin());
        let memory = Memory::with_env(Arc::clone(&clock));
        Self { backend: Arc::new(FaultyMemory::new(memory)), clock, clients: Arc::default() }
    }

    /// A new client with the default options.
    #[must_use]
    pub fn client(&self) -> LockClient {
        self.build(ClientOptions::default())
    }

    /// A new client with these options.
    ///
    /// # Errors
    /// `InvalidInput`, naming the option, as [`ClientOptions::check`].
    pub fn client_with(&self, options: ClientOptions) -> Result<LockClient, Error> {
        options.check()?;
        Ok(self.build(options))
    }

    fn build(&self, options: ClientOptions) -> LockClient {
        let client = LockClient::build(self.backend.clone(), self.clock.clone(), options);
        self.clients.lock().push(client.downgrade());
        client
    }

    /// Takes the lock from its holder, as if the store had lost it. Returns whether the lock was
    /// held.
    ///
    /// When this returns, the holder's guard is lost with the reason `Gone`, or `TakenOver` if a
    /// waiter now has the lock. Injected faults do not affect this call.
    pub fn lose(&self, name: &LockName) -> bool {
        let Some((owner, taken)) = self.backend.memory.take_away(name) else { return false };
        let reason = if taken { LossReason::TakenOver } else { LossReason::Gone };
        for client in self.clients.lock().iter() {
            client.lose(name, owner, reason);
        }
        true
    }

    /// Loses all records, as a store that was restored: later reads are complete since now only
    /// ([`RecordRead::complete_since`](crate::RecordRead::complete_since)).
    pub fn lose_records(&self) {
        self.backend.memory.lose_records();
    }

    /// Refuses the next `attempts` to acquire a lock, as if another client held it. A waiter polls
    /// again after 100 ms.
    ///
    /// The number is added to what is left of an earlier call.
    pub fn refuse_next(&self, attempts: usize) {
        let mut faults = self.backend.faults.lock();
        faults.refusals = faults.refusals.saturating_add(attempts);
    }

    /// Lets the next call of this operation fail with an error of this kind. The call changes
    /// nothing in the store.
    ///
    /// Several failures apply to several calls, one after the other. The client retries some calls
    /// itself, so your code may not see a single failure; use
    /// [`set_available`](Self::set_available) for failures that last.
    pub fn fail_next(&self, operation: Operation, kind: ErrorKind) {
        self.backend.faults.lock().failures.entry(operation).or_default().push_back(kind);
    }

    /// Sets whether clients can reach the store. Default: `true`. If not, all calls fail with
    /// `Unavailable`, including renewals: guards are lost with the reason `Unreachable` when their
    /// leases end.
    pub fn set_available(&self, available: bool) {
        self.backend.faults.lock().down = !available;
    }

    /// Delays each call by `span` before the store carries it out. Default: 0 s.
    ///
    /// A client gives a call up after its `call_timeout`, 5 s by default, or after three times that
    /// if the call is for a queue entry. It releases a grant that comes later.
    pub fn delay(&self, span: Duration) {
        self.backend.faults.lock().delay = span;
    }
}

impl Default for TestStore {
    fn default() -> Self {
        Self::new()
    }
}
