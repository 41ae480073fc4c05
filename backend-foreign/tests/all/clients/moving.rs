//! Leasehold processes move from a foreign layout to leasehold's own layout under load, while
//! foreign clients use the same locks.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use backend_migration::{Direction, Fleet, Migration, Phase, Step};
use futures_util::future::join_all;
use lock_core::{Backend, Error, ErrorKind, FencingToken, Init, LockClient, TryAcquire};
use tokio::time::timeout;

use super::{
    Library,
    cases::{LONG, PATIENCE, Pair, SHORT},
    program::Program,
};

/// Processes of each side.
const OURS: usize = 3;
const THEIRS: usize = 2;
/// How often each leasehold process adds to the number in each phase, at least. Foreign clients do
/// so exactly as often.
const HOLDS: u64 = 20;
/// Between two holds of one process.
const PAUSE: Duration = Duration::from_millis(30);

/// The number that only the lock protects, as the first word of a file. Beside it, the last token
/// of any leasehold process, and how often all processes have added 1.
struct Protected {
    file: PathBuf,
    last: Mutex<FencingToken>,
    added: AtomicU64,
}

impl Protected {
    async fn add(&self, client: &LockClient) {
        let guard = timeout(PATIENCE, client.lock("job").lease(Duration::from_secs(20)).acquire());
        let guard = guard.await.expect("a leasehold process is served").unwrap();
        let before = std::mem::replace(&mut *self.last.lock().unwrap(), guard.token());
        assert!(guard.token() > before, "{} came after {before}", guard.token());
        let number = self.number();
        tokio::time::sleep(Duration::from_millis(1)).await;
        std::fs::write(&self.file, format!("{} ours", number + 1)).unwrap();
        self.added.fetch_add(1, Ordering::Relaxed);
        guard.release().await.unwrap();
    }

    fn number(&self) -> u64 {
        let text = std::fs::read_to_string(&self.file).unwrap();
        let (number, _) = text.split_once(' ').expect("the file is written by one at a time");
        number.parse().unwrap()
    }
}

/// Each leasehold process adds to the number, at least [`HOLDS`] times and until `other` has ended.
async fn add_during(ours: &[LockClient], protected: &Protected, other: impl Future<Output = ()>) {
    let done = AtomicBool::new(false);
    let other = async {
        other.await;
        done.store(true, Ordering::Relaxed);
    };
    let adding = ours.iter().map(async |client| {
        let mut added = 0;
        while added < HOLDS || !done.load(Ordering::Relaxed) {
            protected.add(client).await;
            added += 1;
            tokio::time::sleep(PAUSE).await;
        }
    });
    tokio::join!(other, join_all(adding));
}

/// Each foreign client adds to the number [`HOLDS`] times.
async fn count(theirs: &mut [Program], protected: &Protected) {
    for one in theirs.iter_mut() {
        one.ask(&format!("count job {} {HOLDS}", protected.file.display())).await;
    }
    for one in theirs {
        let counted = timeout(PATIENCE, one.answer()).await.expect("a foreign client is served");
        assert_eq!(counted, "counted");
        protected.added.fetch_add(HOLDS, Ordering::Relaxed);
    }
}

async fn close(ours: Vec<LockClient>) {
    for client in ours {
        client.close().await;
    }
}

/// The URLs of the two stores.
struct Stores([String; 2]);

impl Stores {
    async fn open(&self) -> Result<[Arc<dyn Backend>; 2], Error> {
        let old = backend_foreign::connect(&self.0[0]).await?;
        Ok([old, backend_redis::connect(&self.0[1]).await?])
    }

    async fn enter(&self, phase: Phase) -> Result<Migration, Error> {
        let [old, new] = self.open().await?;
        Migration::new(old, new, phase).await
    }

    /// Leasehold processes in this phase, each with its own connections and migration record.
    async fn processes(&self, phase: Phase) -> Vec<LockClient> {
        let mut clients = Vec::new();
        for _ in 0..OURS {
            clients.push(LockClient::new(Arc::new(self.enter(phase).await.unwrap())));
        }
        clients
    }

    /// The answer of `leasehold migrate next`, with a refusal as text.
    async fn next(&self) -> Result<Step, String> {
        let [old, new] = self.open().await.unwrap();
        let fleet = Fleet::survey(&*old, &*new).await.unwrap();
        fleet.next(Direction::Forward).map_err(|refusal| refusal.to_string())
    }

    /// Waits until this is the next step. If the machine pauses, the record of an ended process may
    /// outlive it.
    async fn next_is(&self, step: Step) {
        let mut last = self.next().await;
        let waiting = async {
            while last != Ok(step) {
                tokio::time::sleep(Duration::from_millis(200)).await;
                last = self.next().await;
            }
        };
        let waited = timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "the next step is not {step:?}: {last:?}");
    }
}

/// Phase by phase. Foreign clients run during the first two phases, and have ended before the last.
/// `None` if the other library cannot be installed here.
pub(super) async fn to_our_own_layout(library: &'static Library) -> Option<()> {
    let Pair { server, theirs, url, .. } = Pair::start(library).await?;
    let mut theirs = vec![theirs];
    while theirs.len() < THEIRS {
        theirs.push(library.start(server.address()).await?);
    }
    let stores = Stores([url, format!("redis://{}", server.address())]);
    let new = backend_redis::connect(&stores.0[1]).await.unwrap();
    new.init(&Init::new().with_first_use(true)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("number");
    std::fs::write(&file, "0 nobody").unwrap();
    let last = Mutex::new(FencingToken::ZERO);
    let protected = Protected { file, last, added: AtomicU64::new(0) };
    let old = stores.processes(Phase::Old).await;
    add_during(&old, &protected, count(&mut theirs, &protected)).await;
    // Processes of two phases are under load at the same time.
    let both = stores.processes(Phase::Both).await;
    let all = [old.clone(), both.clone()].concat();
    add_during(&all, &protected, count(&mut theirs, &protected)).await;
    drop(all);
    close(old).await;

    // While both sides count, a leasehold process may never find a foreign lock.
    assert_eq!(theirs[0].does(&format!("acquire seen {LONG}")).await, "got");
    let refused = both[0].lock("seen").try_acquire().await.unwrap();
    assert!(matches!(refused, TryAcquire::Busy(_)), "{refused:?}");
    // Each foreign client is killed while it holds the lock for which leasehold processes wait.
    let killing = async {
        for one in &mut theirs {
            let got = timeout(PATIENCE, one.does(&format!("acquire job {SHORT}"))).await;
            assert_eq!(got.expect("a foreign client is served"), "got");
            one.kill().await;
        }
    };
    add_during(&both, &protected, killing).await;
    let seen = format!("a {} client, seen", library.layout);
    let refusal = stores.next().await.unwrap_err();
    assert!(refusal.contains("still in phase old") && refusal.contains(&seen), "{refusal}");
    let error = stores.enter(Phase::New).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains(&seen), "{error}");

    // As if a foreign lock was last seen longer ago than it counts.
    let epoch = format!("leasehold-foreign:{}:{{0}}:epoch", library.layout);
    assert_eq!(server.redis(&["HSET", &epoch, "theirs", "1"]).await, "0");
    stores.next_is(Step::Enter(Phase::New)).await;
    let new = stores.processes(Phase::New).await;
    let all = [both.clone(), new.clone()].concat();
    add_during(&all, &protected, async {}).await;
    drop(all);
    close(both).await;
    add_during(&new, &protected, async {}).await;
    stores.next_is(Step::Leave).await;
    close(new).await;
    assert_eq!(protected.number(), protected.added.into_inner(), "an addition was lost");
    Some(())
}
