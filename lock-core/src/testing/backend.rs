//! The store in memory, with faults that a test injects.

#![deny(clippy::missing_trait_methods)]

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;

use crate::{
    Attempt, Backend, Busy, Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant, Guarantees,
    Init, Instant, LockName, LockState, Memory, Page, Quarantined, RecordRead, RecordWrite,
    ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, StoreSettings, WriteOutcome,
    backend::Polling, sync::Mutex, tunables::memory::REFUSED_RETRY,
};

/// A call of a client that [`TestStore::fail_next`](crate::testing::TestStore::fail_next) can let
/// fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// An attempt to acquire the lock, or a request for a queue entry.
    Acquire,
    /// The renewal of the client's locks, in the background.
    Renew,
    /// The release of a lock.
    Release,
    /// The attachment of a lock that was handed over.
    Attach,
    /// The read of a record.
    ReadRecord,
    /// The write of a record.
    WriteRecord,
}

/// The faults of the next calls.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) down: bool,
    pub(super) delay: Duration,
    pub(super) refusals: usize,
    pub(super) failures: HashMap<Operation, VecDeque<ErrorKind>>,
}

#[derive(Debug)]
pub(super) struct FaultyMemory {
    pub(super) memory: Memory,
    pub(super) faults: Mutex<Faults>,
}

impl FaultyMemory {
    pub(super) fn new(memory: Memory) -> Self {
        Self { memory, faults: Mutex::default() }
    }

    /// Delays a call that begins now, or lets it fail. A call that fails does not reach the store.
    async fn begin(&self, name: &'static str, operation: Option<Operation>) -> Result<(), Error> {
        let delay = self.faults.lock().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let mut faults = self.faults.lock();
        let injected = operation.and_then(|it| faults.failures.get_mut(&it)?.pop_front());
        let (kind, message) = match injected {
            Some(kind) => (kind, "a failure that the test has injected"),
            None if faults.down => {
                (ErrorKind::Unavailable, "the test has made the store unavailable")
            }
            None => return Ok(()),
        };
        Err(Error::new(kind, message).at(self.kind(), name))
    }

    /// The `Busy` answer, if the test wants this attempt refused.
    async fn refusal(&self, name: &LockName) -> Result<Option<Busy>, Error> {
        {
            let mut faults = self.faults.lock();
            let Some(left) = faults.refusals.checked_sub(1) else { return Ok(None) };
            faults.refusals = left;
        }
        let state = self.memory.inspect(name).await?;
        let token = state.as_ref().map_or(FencingToken::ZERO, |state| state.token);
        let holder = state.and_then(|state| state.holder);
        Ok(Some(Busy { holder, token, retry_after: REFUSED_RETRY }))
    }
}

#[async_trait]
impl Backend for FaultyMemory {
    fn kind(&self) -> &'static str {
        "test"
    }

    async fn identity(&self) -> Result<String, Error> {
        self.memory.identity().await
    }

    fn answers_at_once(&self) -> bool {
        // The test may delay it.
        false
    }

    fn was_busy(&self, name: &LockName) -> bool {
        self.memory.was_busy(name)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.memory.guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        self.begin("acquire", Some(Operation::Acquire)).await?;
        match self.refusal(&request.name).await? {
            Some(busy) => Ok(Attempt::Busy(busy)),
            None => self.memory.try_acquire(request).await,
        }
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        self.begin("enqueue", Some(Operation::Acquire)).await?;
        match self.refusal(&request.name).await? {
            Some(busy) => Ok(Enqueued::Waiting(Box::new(Polling), busy)),
            None => self.memory.enqueue(request).await,
        }
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.begin("abandon", None).await?;
        self.memory.abandon(request).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        match self.begin("renew", Some(Operation::Renew)).await {
            Ok(()) => self.memory.renew(grants, sent).await,
            Err(error) => grants.iter().map(|_| Renewal::Unknown(error.clone())).collect(),
        }
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        self.begin("release", Some(Operation::Release)).await?;
        // The core then sends the next request itself, so that the faults of `Operation::Acquire`
        // apply to it.
        self.memory.release(grant, ReleaseOptions { next: None, ..options }).await
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.begin("raise", None).await?;
        self.memory.raise(grant, token).await
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        self.begin("reown", Some(Operation::Attach)).await?;
        self.memory.reown(grant, request).await
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        self.begin("read-record", Some(Operation::ReadRecord)).await?;
        self.memory.read_record(name).await
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        self.begin("write-record", Some(Operation::WriteRecord)).await?;
        self.memory.write_record(grant, write).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.begin("inspect", None).await?;
        self.memory.inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.begin("list", None).await?;
        self.memory.list(from).await
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        self.begin("force_release", None).await?;
        self.memory.force_release(name).await
    }

    async fn force_release_if(
        &self,
        name: &LockName,
        token: FencingToken,
    ) -> Result<ReleaseOutcome, Error> {
        self.begin("force_release", None).await?;
        self.memory.force_release_if(name, token).await
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.memory.quarantine().await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.begin("init", None).await?;
        self.memory.init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        self.memory.clock_difference_micros().await
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        self.memory.highest_token().await
    }

    async fn warnings(&self) -> Result<Vec<String>, Error> {
        self.memory.warnings().await
    }

    async fn close(&self) {
        // Other clients of the same store go on.
    }
}
