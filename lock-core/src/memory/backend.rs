//! The trait [`Backend`], in terms of the steps in `store`.

use std::{
    fmt,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{
    entry::Now,
    store::{Answer, Store},
};
use crate::{
    Assumption, Attempt, Backend, ConnectionSecurity, Cursor, Enqueued, Env, Error, ErrorKind,
    FencingToken, Grant, Guarantees, Init, Instant, LockName, LockState, LossReason, Page, Promise,
    RecordRead, RecordWrite, ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, Signal,
    StoreSettings, SystemEnv, Waiter, WriteOutcome, check_lease, check_token,
    sync::Mutex,
    tunables::memory::{CLAIM_WINDOW, ENTRY_LIFE, EXPIRY_SLACK, FAR_HEARTBEAT, SHORTEST_LEASE},
};

/// A store in this process's memory. Clones are connections to the same store.
#[derive(Clone)]
pub struct Memory {
    store: Arc<Mutex<Store>>,
    env: Arc<dyn Env>,
    number: u64,
}

/// What [`Guarantees::record`] assumes.
const LIFE: &str = "this process lives: records end with it";

/// Numbers the stores of this process, for [`Backend::identity`].
static STORES: AtomicU64 = AtomicU64::new(0);

impl Memory {
    /// An empty store with the real clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_env(Arc::new(SystemEnv))
    }

    /// An empty store with the clock of `env`.
    #[must_use]
    pub fn with_env(env: Arc<dyn Env>) -> Self {
        let mut promised = Guarantees::new(SHORTEST_LEASE, StoreSettings::DEFAULT_LONGEST_LEASE);
        promised.exclusion = Promise::Holds { assuming: Vec::new() };
        promised.tokens = Promise::Holds { assuming: Vec::new() };
        promised.shared = Promise::Holds { assuming: Vec::new() };
        promised.record = Promise::Holds { assuming: vec![Assumption::new("this-process", LIFE)] };
        promised.one_token_for_readers = true;
        promised.push = true;
        promised.fair = true;
        promised.raise = true;
        promised.hand_over = true;
        promised.expiry_slack = EXPIRY_SLACK;
        promised.longest_poll = FAR_HEARTBEAT;
        promised.dead_waiter_delay = CLAIM_WINDOW;
        promised.longest_stall = ENTRY_LIFE.saturating_sub(FAR_HEARTBEAT);
        promised.token_lead = promised.longest_lease;
        promised.connection = ConnectionSecurity::Local;
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        Self { store: Arc::new(Mutex::new(Store::new(promised))), env, number }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
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

impl Memory {
    fn now(&self) -> Now<'_> {
        Now { clock: self.env.now(), env: &*self.env }
    }

    /// Frees a lock. Returns its former owner, and whether a waiter has it now; `None` if nobody
    /// held it.
    #[cfg(feature = "testing")]
    pub(crate) fn take_away(&self, name: &LockName) -> Option<(crate::OwnerId, bool)> {
        let now = self.now();
        let mut store = self.store();
        let holder = store.inspect(name, now)?.holder?;
        store.force_release(name, now);
        Some((holder.owner, store.inspect(name, now).is_some_and(|state| state.holder.is_some())))
    }

    /// Loses all records.
    #[cfg(feature = "testing")]
    pub(crate) fn lose_records(&self) {
        let now = self.now();
        self.store().records.lose(now);
    }

    fn refuse(operation: &'static str, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, message).at("memory", operation)
    }

    fn attempt(store: &mut Store, request: &Request, now: Now<'_>) -> Result<Answer, Error> {
        check_lease(request.lease, store.promised.longest_lease)
            .map_err(|error| error.at("memory", "acquire"))?;
        store.attempt(request, now).ok_or_else(|| {
            Self::refuse("acquire", ErrorKind::Config, "the fencing tokens are used up")
        })
    }

    /// Makes an attempt, and adds a queue entry if the lock is busy.
    fn attempt_or_queue(&self, request: &Request) -> Result<Enqueued, Error> {
        let now = self.now();
        let mut store = self.store();
        Ok(match Self::attempt(&mut store, request, now)? {
            Answer::Granted(grant) => Enqueued::Granted(grant),
            Answer::Busy(busy) => {
                let (wake, signals) = mpsc::unbounded_channel();
                store.enqueue(request, wake, now);
                let waiter =
                    MemoryWaiter { memory: self.clone(), request: request.clone(), signals };
                Enqueued::Waiting(Box::new(waiter), busy)
            }
        })
    }

    fn check_floor(&self, operation: &'static str, token: FencingToken) -> Result<(), Error> {
        let longest = self.store().promised.longest_lease;
        check_token(token, self.env.wall_micros(), longest)
            .map_err(|error| error.at("memory", operation))
    }
}

#[async_trait]
impl Backend for Memory {
    fn kind(&self) -> &'static str {
        "memory"
    }

    async fn identity(&self) -> Result<String, Error> {
        Ok(format!("memory:{}", self.number))
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        Arc::clone(&self.store().promised)
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        if request.floor > FencingToken::ZERO {
            self.check_floor("acquire", request.floor)?;
        }
        let now = self.now();
        Ok(match Self::attempt(&mut self.store(), request, now)? {
            Answer::Granted(grant) => Attempt::Granted(grant),
            Answer::Busy(busy) => Attempt::Busy(busy),
        })
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        if request.floor > FencingToken::ZERO {
            self.check_floor("enqueue", request.floor)?;
        }
        self.attempt_or_queue(request)
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let now = self.now();
        self.store().abandon(&request.name, request.owner, now);
        Ok(())
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let now = self.now();
        let mut store = self.store();
        let renew = |grant: &&Grant| {
            if let Some(lease) = store.renew(grant, now) {
                Renewal::Renewed { from: sent, lease }
            } else {
                let taken =
                    store.inspect(&grant.name, now).is_some_and(|state| state.holder.is_some());
                Renewal::Lost(if taken { LossReason::TakenOver } else { LossReason::Gone })
            }
        };
        grants.iter().map(renew).collect()
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        // The next request goes to the end of the queue before the lock is handed over.
        let next = options.next.map(|next| self.attempt_or_queue(next)).transpose()?;
        let now = self.now();
        let released = self.store().release(&grant.name, grant.owner, options.keep, now);
        let outcome = if released { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld };
        Ok(Released { outcome, next })
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.check_floor("raise", token)?;
        let now = self.now();
        if self.store().raise(grant, token, now) {
            Ok(())
        } else {
            let message = "the grant whose token was to be raised is gone";
            Err(Self::refuse("raise", ErrorKind::NotHeld, message).on(&grant.name))
        }
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        let now = self.now();
        let mut store = self.store();
        check_lease(request.lease, store.promised.longest_lease)
            .map_err(|error| error.at("memory", "reown"))?;
        Ok(store.reown(grant, request, now))
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        Ok(self.store().records.read(name, self.now()))
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let now = self.now();
        Ok(self.store().write_record(grant, write, now))
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let now = self.now();
        Ok(self.store().inspect(name, now))
    }

    async fn list(&self, _from: Option<Cursor>) -> Result<Page, Error> {
        let now = self.now();
        let mut store = self.store();
        let names = store.names();
        let states = names.iter().filter_map(|name| store.inspect(name, now));
        let locks = states.filter(|state| state.holder.is_some()).collect();
        Ok(Page { locks, next: None })
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        let now = self.now();
        let freed = self.store().force_release(name, now);
        Ok(if freed { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld })
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        let refused = init.refuse_restored("it lives in this process, and has no older state");
        refused.map_err(|error| error.at("memory", "init"))?;
        init.refuse_reset_tokens().map_err(|error| error.at("memory", "init"))?;
        let mut store = self.store();
        if init.records_complete {
            store.records.set_complete();
        }
        if let Some(longest) = init.longest_lease {
            if longest < SHORTEST_LEASE {
                let message = "the longest lease is below this store's shortest, 10ms";
                return Err(Self::refuse("init", ErrorKind::InvalidInput, message));
            }
            let mut promised = (*store.promised).clone();
            promised.longest_lease = longest;
            promised.token_lead = longest;
            store.promised = Arc::new(promised);
        }
        Ok(StoreSettings::new(store.promised.longest_lease, None))
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn close(&self) {}
}

#[derive(Debug)]
struct MemoryWaiter {
    memory: Memory,
    request: Request,
    signals: mpsc::UnboundedReceiver<Signal>,
}

#[async_trait]
impl Waiter for MemoryWaiter {
    async fn next(&mut self) -> Signal {
        // The store drops the sender of an entry that it drops.
        self.signals
            .recv()
            .await
            .unwrap_or_else(|| Signal::Lost("the store dropped the entry".into()))
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.memory.abandon(&self.request).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{OwnerId, OwnerLabel};

    /// Names with a minimum hold that nobody acquires again do not stay in memory.
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
            let options = ReleaseOptions { keep: Some(Duration::from_nanos(1)), next: None };
            memory.release(&grant, options).await.unwrap();
        }
        let names = memory.store().names().len();
        assert!(names <= 200, "{names}");
    }
}
