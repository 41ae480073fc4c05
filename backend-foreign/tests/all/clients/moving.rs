//! Leasehold processes move from a foreign layout to leasehold's own layout under load, while foreign clients use the same locks.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use backend_migration::{Direction, Fleet, Migration, Phase, Step};
use lock_core::{Backend, Error, ErrorKind, FencingToken, Init, LockClient, TryAcquire};
use tokio::{task::JoinHandle, time::timeout};

use super::{
    Library,
    cases::{LONG, PATIENCE, Pair, SHORT},
};

/// Processes of each side.
const OURS: usize = 3;
const THEIRS: usize = 2;
/// How often each leasehold process adds to the number in each phase, at least. Foreign clients do so exactly as often.
const HOLDS: u64 = 20;
/// Between two holds of one process.
const PAUSE: Duration = Duration::from_millis(30);

/// The number that only the lock protects, as the first word of a file, and the last token of any leasehold process.
struct Protected {
    file: PathBuf,
    last: Mutex<FencingToken>,
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
        guard.release().await.unwrap();
    }

    fn number(&self) -> u64 {
        let text = std::fs::read_to_string(&self.file).unwrap();
        let (number, _) = text.split_once(' ').expect("the file is written by one at a time");
        number.parse().unwrap()
    }
}

/// A leasehold process, with its own connections and migration record. It adds to the number until it must stop.
struct Member {
    client: LockClient,
    added: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Member {
    /// Returns after its first addition.
    async fn start(stores: &Stores, phase: Phase, protected: &Arc<Protected>) -> Self {
        let client = LockClient::new(Arc::new(stores.enter(phase).await.unwrap()));
        let (added, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let task = tokio::spawn({
            let (client, protected) = (client.clone(), Arc::clone(protected));
            let (added, stop) = (Arc::clone(&added), Arc::clone(&stop));
            async move {
                while !stop.load(Ordering::Relaxed) {
                    protected.add(&client).await;
                    added.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
        let member = Self { client, added, stop, task };
        member.adds(1).await;
        member
    }

    /// Waits until it has added this many more times.
    async fn adds(&self, more: u64) {
        let wanted = self.added.load(Ordering::Relaxed) + more;
        let adding = async {
            while self.added.load(Ordering::Relaxed) < wanted {
                assert!(!self.task.is_finished(), "a leasehold process has ended");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, adding).await.expect("a leasehold process continues");
    }

    /// Stops it, and returns how often it has added.
    async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        self.client.close().await;
        self.added.load(Ordering::Relaxed)
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

    /// The answer of `leasehold migrate next`, with a refusal as text.
    async fn next(&self) -> Result<Step, String> {
        let [old, new] = self.open().await.unwrap();
        let fleet = Fleet::survey(&*old, &*new).await.unwrap();
        fleet.next(Direction::Forward).map_err(|refusal| refusal.to_string())
    }

    /// Waits until this is the next step. If the machine pauses, the record of an ended process may outlive it.
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

/// Phase by phase. Foreign clients run during the first two phases, and have ended before the last. `None` if the other library
/// cannot be installed here.
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
    let protected = Arc::new(Protected { file, last: Mutex::new(FencingToken::ZERO) });
    let (mut ours, mut expected) = (Vec::new(), 0);
    for _ in 0..OURS {
        ours.push(Member::start(&stores, Phase::Old, &protected).await);
    }

    for phase in [Phase::Old, Phase::Both] {
        let count = format!("count job {} {HOLDS}", protected.file.display());
        for one in &mut theirs {
            one.ask(&count).await;
        }
        if phase == Phase::Both {
            expected += restart(&mut ours, &stores, phase, &protected).await;
        }
        for one in &mut theirs {
            let counted = timeout(PATIENCE, one.answer()).await.expect("their client is served");
            assert_eq!(counted, "counted");
            expected += HOLDS;
        }
        for one in &ours {
            one.adds(HOLDS).await;
        }
    }

    // While both sides count, a leasehold process may never find a foreign lock.
    assert_eq!(theirs[0].does(&format!("acquire seen {LONG}")).await, "got");
    let refused = ours[0].client.lock("seen").try_acquire().await.unwrap();
    assert!(matches!(refused, TryAcquire::Busy(_)), "{refused:?}");
    // Each foreign client is killed while it holds the lock for which leasehold processes wait.
    for one in &mut theirs {
        let got = timeout(PATIENCE, one.does(&format!("acquire job {SHORT}"))).await;
        assert_eq!(got.expect("their client is served"), "got");
        one.kill().await;
    }
    for one in &ours {
        one.adds(1).await;
    }
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
    expected += restart(&mut ours, &stores, Phase::New, &protected).await;
    for one in &ours {
        one.adds(HOLDS).await;
    }
    stores.next_is(Step::Leave).await;
    for one in ours {
        expected += one.end().await;
    }
    assert_eq!(protected.number(), expected, "an addition was lost");
    Some(())
}

/// Restarts one process after the other, while the others continue. Returns how often the ended ones have added.
async fn restart(
    ours: &mut [Member],
    stores: &Stores,
    phase: Phase,
    protected: &Arc<Protected>,
) -> u64 {
    let mut added = 0;
    for one in ours {
        // The new process works before the old one ends, so that both phases are under load at the same time.
        let before = std::mem::replace(one, Member::start(stores, phase, protected).await);
        added += before.end().await;
    }
    added
}
