//! A store in memory with planted faults.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Blocked, BoxFuture, Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Init, Instant, LockName, LockState, Memory, Page, Quarantined, RecordRead,
    RecordWrite, ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, StoreSettings,
    WriteOutcome,
};
use tokio::sync::Notify;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    Fine,
    /// It does not reach the store.
    Refused(ErrorKind),
    /// It is carried out, but its answer is lost.
    AnswerLost,
    /// Its caller gets no answer, and it is carried out when the test calls `deliver`.
    Late,
    /// The store grants nothing for now.
    Quarantined,
    /// It waits until the test calls `let_go`.
    Held,
    /// The store repeats the attempt by itself, and answers the repeat. The first try is carried
    /// out when the test calls `deliver`.
    Repeated,
}

/// The store in memory with planted faults, by operation.
#[derive(Default)]
pub(crate) struct Faulty {
    pub(crate) memory: Memory,
    /// Replaces the identity of the store.
    identity: Mutex<Option<&'static str>>,
    /// The store sets no lease longer than this.
    limit: Option<Duration>,
    /// Whether it may have lost records until now.
    lost_records: AtomicBool,
    faults: Mutex<HashMap<&'static str, VecDeque<Fault>>>,
    late: Mutex<Vec<BoxFuture>>,
    calls: Mutex<Vec<&'static str>>,
    down: AtomicBool,
    held: Notify,
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faulty")
    }
}

impl Faulty {
    pub(crate) fn of(memory: &Memory) -> Self {
        Self { memory: memory.clone(), ..Self::default() }
    }

    pub(crate) fn named(identity: &'static str) -> Self {
        let faulty = Self::default();
        faulty.rename(identity);
        faulty
    }

    /// The same, of a store that sets no lease longer than `limit`.
    pub(crate) fn limited(identity: &'static str, limit: Duration) -> Self {
        Self { limit: Some(limit), ..Self::named(identity) }
    }

    /// Changes its identity.
    pub(crate) fn rename(&self, identity: &'static str) {
        *self.identity.lock().unwrap() = Some(identity);
    }

    /// Plants a fault for the next call of `operation` that has none yet.
    pub(crate) fn next(&self, operation: &'static str, fault: Fault) {
        self.faults.lock().unwrap().entry(operation).or_default().push_back(fault);
    }

    /// Makes the store unreachable, or reachable again.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// Makes it a store that may have lost records until now.
    pub(crate) fn lose_records(&self) {
        self.lost_records.store(true, Ordering::SeqCst);
    }

    /// Lets the held call continue, or the next one that will be held.
    pub(crate) fn let_go(&self) {
        self.held.notify_one();
    }

    /// Carries out the late calls.
    pub(crate) async fn deliver(&self) {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        assert!(!late.is_empty(), "nothing is late");
        for call in late {
            call.await;
        }
    }

    /// Whether all planted faults have happened.
    pub(crate) fn spent(&self) -> bool {
        self.faults.lock().unwrap().values().all(VecDeque::is_empty)
    }

    /// The calls since this was last read.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    fn fault(&self, operation: &'static str) -> Option<Fault> {
        self.calls.lock().unwrap().push(operation);
        if self.down.load(Ordering::SeqCst) {
            return Some(Fault::Refused(ErrorKind::Unavailable));
        }
        self.faults.lock().unwrap().get_mut(operation)?.pop_front()
    }

    /// Whether the fault of the next call of an operation is `Repeated`.
    fn repeats(&self, operation: &'static str) -> bool {
        let faults = self.faults.lock().unwrap();
        faults.get(operation).and_then(VecDeque::front) == Some(&Fault::Repeated)
    }

    /// Makes a call with the next fault of its operation.
    async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send + 'static,
        quarantined: impl FnOnce(Quarantined) -> Option<T>,
    ) -> Result<T, Error> {
        let failed = |kind| Err(Error::new(kind, "planted").at("faulty", operation));
        match self.fault(operation) {
            None | Some(Fault::Fine | Fault::Repeated) => call.await,
            Some(Fault::Held) => {
                self.held.notified().await;
                call.await
            }
            Some(Fault::Refused(kind)) => failed(kind),
            Some(Fault::AnswerLost) => {
                call.await?;
                failed(ErrorKind::Timeout)
            }
            Some(Fault::Late) => {
                self.late.lock().unwrap().push(Box::pin(async move { drop(call.await) }));
                failed(ErrorKind::Timeout)
            }
            Some(Fault::Quarantined) => {
                let remaining = Duration::from_millis(1);
                Ok(quarantined(Quarantined::new(remaining, "planted")).expect("an answer"))
            }
        }
    }
}

#[async_trait]
impl Backend for Faulty {
    fn kind(&self) -> &'static str {
        "faulty"
    }

    async fn identity(&self) -> Result<String, Error> {
        let identity = *self.identity.lock().unwrap();
        match identity {
            Some(identity) => Ok(identity.into()),
            None => self.memory.identity().await,
        }
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.memory.guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let (memory, mut request) = (self.memory.clone(), request.clone());
        request.lease = request.lease.min(self.limit.unwrap_or(request.lease));
        let doubtful = self.repeats("acquire");
        if doubtful {
            let (memory, request) = (memory.clone(), request.clone());
            let first = Box::pin(async move { drop(memory.try_acquire(&request).await) });
            self.late.lock().unwrap().push(first);
        }
        let call = async move {
            let unknown = || Error::new(ErrorKind::OutcomeUnknown, "planted");
            match memory.try_acquire(&request).await? {
                Attempt::Granted(grant) if doubtful => Ok(Attempt::Granted(grant.doubted())),
                Attempt::Busy(busy) if doubtful => Err(unknown().blocked_by(Blocked::Busy(busy))),
                answer => Ok(answer),
            }
        };
        self.call("acquire", call, |why| Some(Attempt::Quarantined(why))).await
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let (memory, request) = (self.memory.clone(), request.clone());
        let call = async move { memory.enqueue(&request).await };
        self.call("enqueue", call, |why| Some(Enqueued::Quarantined(why))).await
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let (memory, request) = (self.memory.clone(), request.clone());
        let call = async move { memory.abandon(&request).await };
        self.call("abandon", call, |_| None).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        match self.fault("renew") {
            None | Some(Fault::Fine) => self.memory.renew(grants, sent).await,
            Some(_) => {
                let error = || Error::new(ErrorKind::Timeout, "planted");
                grants.iter().map(|_| Renewal::Unknown(error())).collect()
            }
        }
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let (memory, grant, keep) = (self.memory.clone(), grant.clone(), options.keep);
        let call =
            async move { memory.release(&grant, ReleaseOptions::new().with_keep(keep)).await };
        self.call("release", call, |_| None).await
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let (memory, grant) = (self.memory.clone(), grant.clone());
        let call = async move { memory.raise(&grant, token).await };
        self.call("raise", call, |_| None).await
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        self.memory.reown(grant, request).await
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        let (memory, name) = (self.memory.clone(), name.clone());
        let call = async move { memory.read_record(&name).await };
        let read = self.call("read_record", call, |_| None).await?;
        let now = read.now;
        let lost = self.lost_records.load(Ordering::SeqCst);
        Ok(if lost { read.with_complete_since(now) } else { read })
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let (memory, grant, write) = (self.memory.clone(), grant.clone(), write.clone());
        let call = async move { memory.write_record(&grant, &write).await };
        self.call("write_record", call, |_| None).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.memory.inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let memory = self.memory.clone();
        self.call("list", async move { memory.list(from).await }, |_| None).await
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        self.memory.force_release(name).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        if init.records_complete {
            self.lost_records.store(false, Ordering::SeqCst);
        }
        self.memory.init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn close(&self) {}
}
