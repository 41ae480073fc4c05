//! A bucket with faults, and clients with clocks of their own.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use backend_object_store::{
    Objects,
    cas::{CasBackend, CasOptions, CasStore, Object, Put, Version},
};
use lock_core::{
    Attempt, Backend, BoxFuture, Env, Error, ErrorKind, Grant, Instant, LockName, Mutex, NoRuntime,
    OwnerId, OwnerLabel, Renewal, Request, async_trait,
};
use object_store::memory::InMemory;

pub(crate) const LEASE: Duration = Duration::from_secs(10);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// Nonces and owners of all clients of a test run.
static DRAWN: AtomicU64 = AtomicU64::new(1);

/// A client's clocks. A sleep moves them to its end, and takes no time. Of two sleeps that begin at
/// the same time, the shorter one ends first.
#[derive(Debug)]
pub(crate) struct Clocks {
    now: AtomicU64,
    pub(crate) wall: AtomicU64,
}

impl Clocks {
    pub(crate) fn pass(&self, span: Duration) {
        self.now.fetch_add(span.as_nanos() as u64, SeqCst);
        self.wall.fetch_add(span.as_micros() as u64, SeqCst);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct TestEnv(pub(crate) Arc<Clocks>);

impl Env for TestEnv {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.now.load(SeqCst))
    }

    fn wall_micros(&self) -> u64 {
        self.0.wall.load(SeqCst)
    }

    fn random(&self) -> u128 {
        DRAWN.fetch_add(1, SeqCst).into()
    }

    fn spawn(&self, _: BoxFuture) -> Result<(), NoRuntime> {
        Err(NoRuntime)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture {
        self.sleep(at.since(self.now()))
    }

    fn sleep(&self, span: Duration) -> BoxFuture {
        let (env, end) = (self.clone(), self.now() + span);
        Box::pin(async move {
            for _ in 0..=span.as_millis() / 10 {
                tokio::task::yield_now().await;
            }
            env.0.pass(end.since(env.now()));
        })
    }
}

/// What becomes of the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The store carries it out, and the answer is lost.
    LostReply,
    /// The store carries it out, and a repeat on the way is refused.
    RefusedRepeat,
    /// The store asks the client to slow down.
    Throttled,
    /// It is under way until [`Bucket::deliver`].
    Held,
    /// It gets through.
    None,
}

/// A write that is under way.
type Late = (String, Vec<u8>, Option<Version>);

/// A bucket, as one client reaches it.
pub(crate) struct Bucket {
    inner: Objects,
    faults: Mutex<VecDeque<Fault>>,
    /// So many reads and listings are answered with 503.
    pub(crate) refused_reads: AtomicU64,
    /// The store's clock, in microseconds since 1970; 0 for this machine's.
    pub(crate) clock: AtomicU64,
    /// When each object was written, on that clock.
    pub(crate) modified: Mutex<HashMap<String, u64>>,
    /// Writes that are under way, and the most of them.
    under_way: [AtomicU64; 2],
    late: Mutex<Vec<Late>>,
    /// What happens while the next read is on its way.
    on_read: Mutex<Option<BoxFuture>>,
    /// Conditions of this kind are ignored: on a version, or on there being no object.
    pub(crate) ignores: Mutex<Option<bool>>,
    pub(crate) writes: AtomicU64,
    pub(crate) reads: AtomicU64,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket").finish_non_exhaustive()
    }
}

impl Bucket {
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().extend(faults);
    }

    pub(crate) fn on_read(&self, meanwhile: impl Future<Output = ()> + Send + 'static) {
        *self.on_read.lock() = Some(Box::pin(meanwhile));
    }

    /// Carries out the writes that were under way. Returns what the store says to each.
    pub(crate) async fn deliver(&self) -> Vec<Put> {
        let late = std::mem::take(&mut *self.late.lock());
        let mut answers = Vec::new();
        for (key, bytes, expected) in late {
            answers.push(self.inner.put_if(&key, bytes, expected.as_ref()).await.unwrap());
        }
        answers
    }

    /// No more faults.
    pub(crate) fn heal(&self) {
        self.faults.lock().clear();
    }

    /// The most writes that were under way at once.
    pub(crate) fn most_at_once(&self) -> u64 {
        self.under_way[1].load(SeqCst)
    }

    fn refuse_read(&self) -> Result<(), Error> {
        let left = self.refused_reads.load(SeqCst);
        self.refused_reads.store(left.saturating_sub(1), SeqCst);
        if left == 0 { Ok(()) } else { Err(unavailable()) }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.faults.lock().is_empty()
    }
}

#[async_trait]
impl CasStore for Bucket {
    async fn get(&self, key: &str) -> Result<Option<Object>, Error> {
        self.reads.fetch_add(1, SeqCst);
        let meanwhile = self.on_read.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile.await;
        }
        self.refuse_read()?;
        let mut object = self.inner.get(key).await?;
        if let (Some(object), Some(at)) = (&mut object, self.modified.lock().get(key)) {
            object.modified_micros = Some(*at);
        }
        Ok(object)
    }

    async fn put_if(
        &self,
        key: &str,
        bytes: Vec<u8>,
        expected: Option<&Version>,
    ) -> Result<Put, Error> {
        self.writes.fetch_add(1, SeqCst);
        if *self.ignores.lock() == Some(expected.is_some()) {
            let present = self.inner.get(key).await?.map(|object| object.version);
            return self.inner.put_if(key, bytes, present.as_ref()).await;
        }
        let fault = self.faults.lock().pop_front().unwrap_or(Fault::None);
        match fault {
            Fault::None => {
                let put = self.inner.put_if(key, bytes, expected).await?;
                let now = self.clock.load(SeqCst);
                if let (Put::Written(_), 1..) = (&put, now) {
                    self.modified.lock().insert(key.to_owned(), now);
                }
                Ok(put)
            }
            Fault::Throttled => Err(unavailable()),
            Fault::LostReply => {
                self.inner.put_if(key, bytes, expected).await?;
                Err(unavailable())
            }
            Fault::RefusedRepeat => {
                self.inner.put_if(key, bytes, expected).await?;
                Ok(Put::Refused)
            }
            Fault::Held => {
                self.late.lock().push((key.to_owned(), bytes, expected.cloned()));
                let _under_way = UnderWay::new(&self.under_way);
                std::future::pending().await
            }
        }
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, Error> {
        self.refuse_read()?;
        self.inner.list(prefix, after).await
    }
}

pub(crate) fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "503")
}

/// Counts a write until it ends.
struct UnderWay<'a>(&'a AtomicU64);

impl<'a> UnderWay<'a> {
    fn new([now, most]: &'a [AtomicU64; 2]) -> Self {
        most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
        Self(now)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A client of a bucket.
pub(crate) struct Client {
    pub(crate) backend: CasBackend,
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) clocks: Arc<Clocks>,
}

pub(crate) fn reach(memory: &Arc<InMemory>) -> Arc<Bucket> {
    Arc::new(Bucket {
        inner: Objects::new(Arc::clone(memory) as _, "").unwrap(),
        faults: Mutex::default(),
        late: Mutex::default(),
        on_read: Mutex::default(),
        ignores: Mutex::default(),
        refused_reads: AtomicU64::new(0),
        clock: AtomicU64::new(0),
        modified: Mutex::default(),
        under_way: Default::default(),
        writes: AtomicU64::new(0),
        reads: AtomicU64::new(0),
    })
}

pub(crate) fn clocks() -> Arc<Clocks> {
    let wall = AtomicU64::new(lock_core::SystemEnv.wall_micros());
    Arc::new(Clocks { now: AtomicU64::new(1), wall })
}

pub(crate) async fn open(bucket: &Arc<Bucket>, clocks: &Arc<Clocks>) -> Result<CasBackend, Error> {
    let mut options = CasOptions::new("object-store");
    options.env = Arc::new(TestEnv(Arc::clone(clocks)));
    CasBackend::open(Arc::clone(bucket) as _, options).await
}

impl Client {
    pub(crate) async fn of(memory: &Arc<InMemory>) -> Self {
        let (bucket, clocks) = (reach(memory), clocks());
        let backend = open(&bucket, &clocks).await.unwrap();
        Self { backend, bucket, clocks }
    }

    pub(crate) fn now(&self) -> Instant {
        TestEnv(Arc::clone(&self.clocks)).now()
    }

    pub(crate) fn request(&self) -> Request {
        self.request_of(job())
    }

    pub(crate) fn request_of(&self, name: LockName) -> Request {
        let owner = OwnerId::from_bits(DRAWN.fetch_add(1, SeqCst).into());
        let label = OwnerLabel::new("test").unwrap();
        Request::new(name, owner, label, LEASE, self.now())
    }

    pub(crate) async fn acquire(&self) -> Option<Grant> {
        self.backend.try_acquire(&self.request()).await.unwrap().granted()
    }

    pub(crate) async fn renew(&self, grant: &Grant) -> Renewal {
        self.backend.renew(&[grant], self.now()).await.remove(0)
    }

    /// Looks at the lock; whether somebody has it.
    pub(crate) async fn sees_it_held(&self) -> bool {
        let attempt = self.backend.inspect(&job()).await.unwrap();
        attempt.is_some_and(|state| state.holder.is_some())
    }

    /// Waits until it has the lock, and returns how long that took on its clock.
    pub(crate) async fn wait(&self) -> (Grant, Duration) {
        let (start, request) = (self.now(), self.request());
        loop {
            match self.backend.try_acquire(&request).await.unwrap() {
                Attempt::Granted(grant) => return (grant, self.now().since(start)),
                Attempt::Busy(busy) => self.clocks.pass(busy.retry_after),
                Attempt::Quarantined(_) => unreachable!(),
            }
        }
    }
}

pub(crate) fn job() -> LockName {
    LockName::new("job").unwrap()
}

/// The names of many locks.
pub(crate) fn jobs(count: usize) -> Vec<LockName> {
    (0..count).map(|number| LockName::new(format!("job {number}")).unwrap()).collect()
}

pub(crate) fn is_renewed(renewal: &Renewal) -> bool {
    matches!(renewal, Renewal::Renewed { .. })
}

pub(crate) fn is_lost(renewal: &Renewal) -> bool {
    matches!(renewal, Renewal::Lost(_))
}
