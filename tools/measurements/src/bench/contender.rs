//! The contenders for one name: leasehold, and other lock libraries (peers) on the same server.

use std::{fs::File, mem::ManuallyDrop, path::PathBuf, time::Duration};

use etcd_client::LockOptions;
use leasehold::zookeeper::zookeeper_client::{self, Acls, CreateMode, LockPrefix};
use lock_core::{ErrorKind, LockClient};
use rustix::fs::{FlockOperation, flock};
use sqlx::{
    Executor as _, MySqlPool, PgPool,
    mysql::MySqlPoolOptions,
    postgres::{PgAdvisoryLock, PgPoolOptions},
};

use super::{LEASE, Turn, WAIT, clock};

/// The mutex of [`Contender::TokioMutex`]; all tasks want the same one.
static MUTEX: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A lock library with its connection.
#[derive(Clone)]
// There are few of them.
#[allow(clippy::large_enum_variant)]
pub enum Contender {
    /// leasehold over any store.
    Leasehold(LockClient),
    /// tokio's fair mutex: no names and no leases.
    TokioMutex,
    /// rslock over one Redis, or several.
    Rslock(rslock::LockManager),
    /// etcd's Lock API: a lease, the call Lock, a revoke. The server carries it out by the mutex of
    /// etcd's Go package `concurrency`.
    LockApi(etcd_client::Client),
    /// Curator's recipe for `InterProcessMutex`, as zookeeper-client has it, with one session for
    /// all locks.
    Recipe(zookeeper_client::Client),
    /// sqlx's advisory lock. It writes nothing, and ends with its session.
    Advisory(PgPool),
    /// MySQL's `GET_LOCK`. It writes nothing, and ends with its session.
    GetLock(MySqlPool),
    /// `flock` on a file, as fs4 and Rust's `File::lock` call it. It ends with its process.
    Flock(PathBuf),
}

impl Contender {
    /// Connects to the store at a URL of leasehold. The kinds are `leasehold`, `tokio-mutex`,
    /// `rslock`, `rslock N` with a pause of N ms between attempts, `lock-api`, `recipe`,
    /// `advisory`, `get-lock`, and `flock` on a file beside the database file.
    pub async fn open(kind: &str, url: &str) -> Self {
        let hosts = url.split_once("://").map_or("", |(_, hosts)| hosts);
        let hosts = hosts.split('?').next().unwrap_or_default();
        match kind {
            "leasehold" => Self::Leasehold(leasehold::connect(url).await.unwrap()),
            "tokio-mutex" => Self::TokioMutex,
            "lock-api" => Self::LockApi(etcd_client::Client::connect([hosts], None).await.unwrap()),
            "recipe" => {
                let connector = zookeeper_client::Client::connector().with_session_timeout(LEASE);
                Self::Recipe(connector.connect(hosts).await.unwrap())
            }
            "advisory" => {
                // A waiter keeps its connection.
                let pool = PgPoolOptions::new().max_connections(16).test_before_acquire(false);
                Self::Advisory(pool.connect(url).await.unwrap())
            }
            "get-lock" => {
                // A waiter keeps its connection.
                let pool = MySqlPoolOptions::new().max_connections(16).test_before_acquire(false);
                Self::GetLock(pool.connect(url).await.unwrap())
            }
            "flock" => {
                let (_, database) = url.split_once(':').unwrap();
                Self::Flock(PathBuf::from(format!("{database}.flock")))
            }
            rslock => {
                let urls = hosts.split(',').map(|host| format!("redis://{host}"));
                let mut manager = rslock::LockManager::new(urls.collect::<Vec<_>>());
                if let Some(millis) = rslock.strip_prefix("rslock ") {
                    manager.set_retry(1, Duration::from_millis(millis.parse().unwrap()));
                }
                Self::Rslock(manager)
            }
        }
    }

    /// Acquires the lock, holds it for `hold`, and releases it. `None` if the library gave up
    /// waiting.
    pub async fn turn(&self, name: &str, task: usize, hold: Duration) -> Option<Turn> {
        let holding = async || {
            let held = clock();
            match hold.is_zero() {
                // If the store answers at once, the other tasks would never run.
                true => tokio::task::yield_now().await,
                false => tokio::time::sleep(hold).await,
            }
            Turn { task, held, freeing: clock() }
        };
        Some(match self {
            Self::Leasehold(client) => {
                let guard = client.lock(name).lease(LEASE).wait(WAIT).acquire().await.unwrap();
                let turn = holding().await;
                let left = guard.remaining();
                match guard.release().await {
                    Ok(()) => {}
                    // The client repeats it in the background.
                    Err(error) if error.kind() == ErrorKind::Timeout => {}
                    Err(error) => panic!("{left:?} before the end of the lease: {error}"),
                }
                turn
            }
            Self::TokioMutex => {
                let _guard = MUTEX.lock().await;
                holding().await
            }
            Self::Rslock(manager) => {
                let lock = manager.lock(format!("rslock {name}").as_str(), LEASE).await.ok()?;
                let turn = holding().await;
                manager.unlock(&lock).await;
                turn
            }
            Self::LockApi(client) => {
                let lease = client.lease_client().grant(10, None).await.unwrap().id();
                let options = LockOptions::new().with_lease(lease);
                client.lock_client().lock(format!("plain {name}"), Some(options)).await.unwrap();
                let turn = holding().await;
                client.lease_client().revoke(lease).await.unwrap();
                turn
            }
            Self::Recipe(client) => {
                let directory = format!("/recipe {name}");
                let everybody = Acls::anyone_all();
                let parents = CreateMode::Persistent.with_acls(everybody);
                let options = zookeeper_client::LockOptions::new(everybody);
                let options = options.with_ancestor_options(parents).unwrap();
                let prefix = LockPrefix::new_curator(&directory, "lock-").unwrap();
                // A drop would release it in the background. Curator waits for the answer.
                let lock = ManuallyDrop::new(client.lock(prefix, b"", options).await.unwrap());
                let turn = holding().await;
                client.delete(lock.lock_path(), None).await.unwrap();
                turn
            }
            Self::Advisory(pool) => {
                let lock = PgAdvisoryLock::new(name);
                let guard = lock.acquire(pool.acquire().await.unwrap()).await.unwrap();
                let turn = holding().await;
                guard.release_now().await.unwrap();
                turn
            }
            Self::GetLock(pool) => {
                let mut session = pool.acquire().await.unwrap();
                let seconds = WAIT.as_secs();
                let got = format!("SELECT GET_LOCK('{name}', {seconds})");
                let got: Option<i64> = sqlx::query_scalar(sqlx::AssertSqlSafe(got))
                    .fetch_one(&mut *session)
                    .await
                    .unwrap();
                assert_eq!(got, Some(1), "GET_LOCK gave up");
                let turn = holding().await;
                let release = format!("SELECT RELEASE_LOCK('{name}')");
                session.execute(sqlx::AssertSqlSafe(release)).await.unwrap();
                turn
            }
            Self::Flock(path) => {
                let path = path.clone();
                let locked = tokio::task::spawn_blocking(move || {
                    let file = File::create(path).unwrap();
                    flock(&file, FlockOperation::LockExclusive).unwrap();
                    file
                });
                let file = locked.await.unwrap();
                let turn = holding().await;
                drop(file);
                turn
            }
        })
    }
}
