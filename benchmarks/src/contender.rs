//! Who competes for one name: leasehold, and other libraries on the same server.

use std::{fs::File, path::PathBuf, sync::Arc, time::Duration};

use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use etcd_client::LockOptions;
use lock_core::{ErrorKind, LockClient};
use sqlx::{
    Executor as _, MySqlPool, PgPool,
    mysql::MySqlPoolOptions,
    postgres::{PgAdvisoryLock, PgPoolOptions},
};

use crate::{LEASE, Turn, WAIT, clock};

/// A lock by some means.
#[derive(Clone)]
// There are few of them.
#[allow(clippy::large_enum_variant)]
pub enum Contender {
    /// Of any store.
    Leasehold(LockClient),
    /// One Redis, or several.
    Rslock(rslock::LockManager),
    /// The `distributed-lock` crate's Redis.
    Distributed(Arc<distributed_lock_redis::RedisLockProvider>),
    /// The plain protocol: a lease, etcd's own Lock call, a revoke. The server carries it out by the mutex of etcd's Go package
    /// `concurrency`.
    LockApi(etcd_client::Client),
    /// sqlx's. It writes nothing, and ends with its session.
    Advisory(PgPool),
    /// What `distributed-lock-postgres` 0.2.0 sends. The crate itself needs another version of the
    /// driver and OpenSSL.
    Statements(PgPool),
    /// MySQL's `GET_LOCK`. It writes nothing, and ends with its session.
    GetLock(MySqlPool),
    /// `flock` on a file, as fs4 and Rust's `File::lock` call it. It ends with its process.
    Flock(PathBuf),
}

/// To acquire.
const STATEMENTS: [&str; 5] = [
    "BEGIN",
    "SAVEPOINT medallion_lock_acquire",
    "SET LOCAL lock_timeout = 0",
    "SELECT pg_advisory_lock(8)",
    "COMMIT",
];

impl Contender {
    /// Of the store at a URL of leasehold: `leasehold`, `rslock`, `rslock N` with a pause of N ms
    /// between attempts, `distributed-lock`, `lock-api`, `advisory`, `statements`, `get-lock`, or `flock` on a file beside
    /// the database file.
    pub async fn open(kind: &str, url: &str) -> Self {
        let hosts = url.split_once("://").map_or("", |(_, hosts)| hosts);
        match kind {
            "leasehold" => Self::Leasehold(leasehold::connect(url).await.unwrap()),
            "distributed-lock" => {
                let provider = distributed_lock_redis::RedisLockProvider::new(url.to_owned()).await;
                Self::Distributed(Arc::new(provider.unwrap()))
            }
            "lock-api" => Self::LockApi(etcd_client::Client::connect([hosts], None).await.unwrap()),
            // One that waits keeps its connection.
            "advisory" => Self::Advisory(pool(url).await),
            "statements" => Self::Statements(pool(url).await),
            "get-lock" => {
                // A session that was given back is asked whether it lives; the next turn takes the other one.
                let pool = MySqlPoolOptions::new().min_connections(2).max_connections(2);
                let pool = pool.test_before_acquire(false);
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

    /// So many of a kind, each with connections of its own.
    pub async fn each(kind: &str, url: &str, count: usize) -> Vec<Self> {
        let mut each = Vec::new();
        for _ in 0..count {
            each.push(Self::open(kind, url).await);
        }
        each
    }

    /// Takes the lock once, holds it for `hold`, and gives it back; nothing where it gave up waiting.
    pub async fn turn(&self, name: &str, task: usize, hold: Duration) -> Option<Turn> {
        let holding = async || {
            let held = clock();
            match hold.is_zero() {
                // A task that is answered at once would never let the others ask.
                true => tokio::task::yield_now().await,
                false => tokio::time::sleep(hold).await,
            }
            Turn { task, held, freeing: clock() }
        };
        Some(match self {
            Self::Leasehold(client) => {
                let guard = client.lock(name).lease(LEASE).wait(WAIT).acquire().await.unwrap();
                let turn = holding().await;
                match guard.release().await {
                    // It is repeated in the background.
                    Err(error) if error.kind() == ErrorKind::Timeout => {}
                    released => drop(released.unwrap()),
                }
                turn
            }
            Self::Rslock(manager) => {
                let lock = manager.lock(format!("rslock {name}").as_str(), LEASE).await.ok()?;
                let turn = holding().await;
                manager.unlock(&lock).await;
                turn
            }
            Self::Distributed(provider) => {
                let lock = provider.create_lock(&format!("distributed {name}"));
                let handle = lock.acquire(Some(Duration::from_secs(5))).await.ok()?;
                let turn = holding().await;
                handle.release().await.ok();
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
            Self::Advisory(pool) => {
                let lock = PgAdvisoryLock::new(name);
                let guard = lock.acquire(pool.acquire().await.unwrap()).await.unwrap();
                let turn = holding().await;
                guard.release_now().await.unwrap();
                turn
            }
            Self::Statements(pool) => {
                let mut session = pool.acquire().await.unwrap();
                for statement in STATEMENTS {
                    session.execute(statement).await.unwrap();
                }
                let turn = holding().await;
                session.execute("SELECT pg_advisory_unlock(8)").await.unwrap();
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
                    file.lock().unwrap();
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

async fn pool(url: &str) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(16).test_before_acquire(false);
    pool.connect(url).await.unwrap()
}
