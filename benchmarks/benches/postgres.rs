//! What a lock in PostgreSQL costs, beside the bare statements on an unlogged and on a logged table,
//! and beside advisory locks, which write nothing.
//!
//! `cargo bench -p benchmarks --bench postgres [ROUNDS]`

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use backend_sql::Strategy;
use benchmarks::{Meter, Round, Table, bare, postgres_pool, postgres_store};
use conformance_tests::kit::{Postgres, PostgresOptions, Server as _};
use lock_core::{
    Env as _, LockClient, LockName, OwnerId, OwnerLabel, ReleaseOptions, Request, SystemEnv,
};
use sqlx::{
    Connection as _, Executor as _, PgPool,
    postgres::{PgAdvisoryLock, PgAdvisoryLockKey},
};
use tokio::runtime::Builder;

const BOTH: [Strategy; 2] = [Strategy::PrimaryKey, Strategy::Optimistic];
const SPAN: Duration = Duration::from_millis(300);
const TASKS: usize = 16;

/// By the scheduler's own account of the processes.
struct Busy<'a>(&'a Postgres);

impl Meter for Busy<'_> {
    fn read(&self) -> (Duration, Duration) {
        let of = |pid: u32| {
            // A session that has ended is busy no more.
            let text =
                std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
        };
        let there = self.0.process().tree().unwrap().into_iter().map(of).sum();
        (Duration::from_nanos(of(std::process::id())), Duration::from_nanos(there))
    }
}

/// A server that flushes as one in use does.
async fn start() -> Postgres {
    let options = PostgresOptions::new().line("fsync = on").line("synchronous_commit = on");
    Postgres::start(options).await.unwrap()
}

async fn pool(server: &Postgres, connections: u32) -> PgPool {
    let url = format!("postgres://postgres@{}/postgres", server.address());
    postgres_pool(&url, connections).await
}

async fn uncontended(server: &Postgres, rounds: usize) {
    let pool = pool(server, 4).await;
    let floor = bare::Postgres::new(&pool, "floor", "UNLOGGED").await;
    let logged = bare::Postgres::new(&pool, "logged", "").await;
    let mut ours = Vec::new();
    for strategy in BOTH {
        ours.push((strategy.to_string(), postgres_store(&pool, strategy).await));
    }
    let clients: Vec<_> = ours
        .iter()
        .map(|(name, store)| (name.clone(), LockClient::new(Arc::clone(store))))
        .collect();
    let advisory = PgAdvisoryLock::new("job");
    let meter = Busy(server);
    let mut table = Table::default();
    for round in 0..=rounds {
        let mut add = |name: &str, measured: Round| {
            // The first one warms up.
            if round > 0 {
                table.add(name, measured);
            }
        };
        add("floor: unlogged", Round::of(&meter, SPAN, async || floor.clone().pair().await).await);
        for (name, client) in &clients {
            let lock = Round::of(&meter, SPAN, async || {
                client.lock("job").acquire().await.unwrap().release().await.unwrap();
            });
            add(name, lock.await);
        }
        let (_, store) = &ours[0];
        let calls = Round::of(&meter, SPAN, async || {
            let owner = OwnerId::from_bits(SystemEnv.random());
            let (name, label) = (LockName::new("calls").unwrap(), OwnerLabel::new("x").unwrap());
            let lease = Duration::from_secs(10);
            let request = Request::new(name, owner, label, lease, SystemEnv.now());
            let grant = store.try_acquire(&request).await.unwrap().granted().unwrap();
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
        });
        add("primary-key, without the client", calls.await);
        add("floor: logged", Round::of(&meter, SPAN, async || logged.clone().pair().await).await);
        let peer = Round::of(&meter, SPAN, async || {
            let connection = pool.acquire().await.unwrap();
            advisory.acquire(connection).await.unwrap().release_now().await.unwrap();
        });
        add("peer: sqlx PgAdvisoryLock", peer.await);
    }
    table.print("acquire + release, nobody else wants it");
    pool.close().await;
}

/// Tasks that take one name in turns. A handoff is from the begin of a release to the next grant.
#[derive(Default)]
struct Relay {
    released: Mutex<Option<Instant>>,
    took: Mutex<Vec<Duration>>,
}

impl Relay {
    fn taken(&self) {
        if let Some(released) = self.released.lock().unwrap().take() {
            self.took.lock().unwrap().push(released.elapsed());
        }
    }

    fn releasing(&self) {
        *self.released.lock().unwrap() = Some(Instant::now());
    }

    /// Runs `turn` in each task, again and again.
    async fn run<F>(
        meter: &impl Meter,
        span: Duration,
        turn: impl Fn(usize, Arc<Self>) -> F,
    ) -> Round
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let relay = Arc::new(Self::default());
        let (before, began) = (meter.read(), Instant::now());
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            tasks.spawn(turn(task, Arc::clone(&relay)));
        }
        tokio::time::sleep(span).await;
        let (all, after) = (began.elapsed(), meter.read());
        let busy = (after.0 - before.0, after.1.saturating_sub(before.1));
        let took = std::mem::take(&mut *relay.took.lock().unwrap());
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        Round { took, all, busy }
    }
}

async fn handoffs(server: &Postgres, rounds: usize) {
    let shared = pool(server, 4).await;
    // An advisory lock keeps its connection for as long as it waits.
    let many = pool(server, TASKS as u32).await;
    let one = LockClient::new(postgres_store(&shared, Strategy::PrimaryKey).await);
    let optimistic = LockClient::new(postgres_store(&shared, Strategy::Optimistic).await);
    let mut each = Vec::new();
    for _ in 0..TASKS {
        each.push(LockClient::new(postgres_store(&shared, Strategy::PrimaryKey).await));
    }
    let mut table = Table::default();
    let (meter, span) = (Busy(server), SPAN * 2);
    for round in 0..=rounds {
        let mut add = |name: &str, measured: Round| {
            if round > 0 {
                table.add(name, measured);
            }
        };
        let advisory = Relay::run(&meter, span, |_, relay| {
            let many = many.clone();
            async move {
                let lock = PgAdvisoryLock::with_key(PgAdvisoryLockKey::BigInt(7));
                // A task that is cancelled while it waits takes its session with it.
                let mut session = many.acquire().await.unwrap().detach();
                loop {
                    let guard = lock.acquire(session).await.unwrap();
                    relay.taken();
                    tokio::task::yield_now().await;
                    relay.releasing();
                    session = guard.release_now().await.unwrap();
                }
            }
        });
        add("peer: sqlx PgAdvisoryLock", advisory.await);
        for (name, client) in
            [("one client, primary-key", &one), ("one client, optimistic", &optimistic)]
        {
            let ours = Relay::run(&meter, span, |_, relay| {
                let client = client.clone();
                async move {
                    loop {
                        let guard = client.lock("relay").acquire().await.unwrap();
                        relay.taken();
                        tokio::task::yield_now().await;
                        relay.releasing();
                        guard.release().await.unwrap();
                    }
                }
            });
            add(name, ours.await);
        }
        let ours = Relay::run(&meter, span, |task, relay| {
            let client = each[task].clone();
            async move {
                loop {
                    let guard = client.lock("apart").acquire().await.unwrap();
                    relay.taken();
                    tokio::task::yield_now().await;
                    relay.releasing();
                    guard.release().await.unwrap();
                }
            }
        });
        add("16 clients, primary-key", ours.await);
        let address = server.address();
        let other = Relay::run(&meter, span, |_, relay| async move {
            let url = format!("postgres://postgres@{address}/postgres");
            let mut session = sqlx::PgConnection::connect(&url).await.unwrap();
            loop {
                for statement in DISTRIBUTED_LOCK {
                    session.execute(statement).await.unwrap();
                }
                relay.taken();
                tokio::task::yield_now().await;
                relay.releasing();
                session.execute("SELECT pg_advisory_unlock(8)").await.unwrap();
            }
        });
        add("peer: distributed-lock's statements", other.await);
    }
    table.print("handoffs: 16 tasks on one name");
}

/// What `distributed-lock-postgres` 0.2.0 sends to acquire. The crate itself needs another version of
/// the driver and OpenSSL.
const DISTRIBUTED_LOCK: [&str; 5] = [
    "BEGIN",
    "SAVEPOINT medallion_lock_acquire",
    "SET LOCAL lock_timeout = 0",
    "SELECT pg_advisory_lock(8)",
    "COMMIT",
];

fn main() {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(9);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = start().await;
        uncontended(&server, rounds).await;
        handoffs(&server, rounds).await;
    });
}
