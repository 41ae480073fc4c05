//! What a job that runs once per period costs beside a plain pair, and the write of a record beside
//! the update of one row or key, which is as durable.
//!
//! `cargo bench -p measurements --bench once [-- STORE…]` runs some of `redis`, `postgres` and
//! `sqlite`. Each store keeps its records: the servers flush each write.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::{Decision, Guard, LockClient};
use lock_core::Init;
use measurements::bench::{Call, LEASE, call, latencies};
use servers::{Postgres, PostgresOptions, Redis, RedisOptions, Server as _};
use sqlx::{
    ConnectOptions as _, Connection as _, Executor as _, PgConnection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::sync::Mutex;

const STORES: [&str; 3] = ["redis", "postgres", "sqlite"];
const DAY: Duration = Duration::from_secs(86_400);
/// As long as the record of a run.
const VALUE: &str = "leasehold run 1\ndone 1 1764276096000000 1764276096000000 0 host:4711\n";

/// A store, the update of its own row or key, and what keeps both.
struct Site {
    url: String,
    update: Call,
    _kept: Box<dyn Any>,
}

async fn redis() -> Site {
    let server = RedisOptions::new().aof().line("appendfsync always");
    let server = Redis::start(server).await.unwrap();
    let url = format!("redis://{}", server.address());
    let client = redis::Client::open(url.as_str()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let update = call(move |_| {
        let mut connection = connection.clone();
        async move {
            let mut set = redis::cmd("SET");
            set.arg("bare").arg(VALUE).arg("PX").arg(DAY.as_millis() as u64);
            set.exec_async(&mut connection).await.unwrap();
        }
    });
    Site { url, update, _kept: Box::new(server) }
}

const TABLE: &str = "CREATE TABLE bare (name TEXT PRIMARY KEY, value TEXT)";
const ROW: &str = "INSERT INTO bare VALUES ('job', '')";

macro_rules! updates {
    ($connection:expr, $update:literal) => {{
        let mut connection = $connection;
        connection.execute(TABLE).await.unwrap();
        connection.execute(ROW).await.unwrap();
        let (connection, next) = (Arc::new(Mutex::new(connection)), AtomicU64::new(1_000_000));
        call(move |_| {
            let connection = Arc::clone(&connection);
            // SQLite writes no page that stays the same.
            let value = format!("{VALUE}{}", next.fetch_add(1, Ordering::Relaxed));
            async move {
                let mut connection = connection.lock().await;
                let update = sqlx::query($update).bind(value).bind("job");
                update.execute(&mut *connection).await.unwrap();
            }
        })
    }};
}

async fn postgres() -> Site {
    let server = Postgres::start(PostgresOptions::new().line("fsync = on")).await.unwrap();
    let url = format!("postgres://postgres@{}/postgres", server.address());
    let connection = PgConnection::connect(&url).await.unwrap();
    let update = updates!(connection, "UPDATE bare SET value = $1 WHERE name = $2");
    Site { url, update, _kept: Box::new(server) }
}

async fn sqlite() -> Site {
    let folder = tempfile::tempdir().unwrap();
    let bare = SqliteConnectOptions::new().filename(folder.path().join("bare.db"));
    let bare = bare.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    let bare: SqliteConnection = bare.synchronous(SqliteSynchronous::Full).connect().await.unwrap();
    let update = updates!(bare, "UPDATE bare SET value = ? WHERE name = ?");
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    Site { url, update, _kept: Box::new(folder) }
}

/// Each call has a name of its own, as long as the others'.
fn fresh<F>(
    client: &LockClient,
    then: impl Fn(leasehold::Lock) -> F + Send + Sync + 'static,
) -> Call
where
    F: Future<Output = ()> + Send + 'static,
{
    let (client, next) = (client.clone(), AtomicU64::new(1_000_000));
    call(move |_| {
        let name = format!("job {}", next.fetch_add(1, Ordering::Relaxed));
        then(client.lock(name).lease(LEASE))
    })
}

async fn run(lock: leasehold::Lock) {
    let Decision::Due(run) = lock.once_per(DAY).begin().await.unwrap() else {
        panic!("a job that never ran is due")
    };
    run.succeeded().await.unwrap();
}

async fn measure(store: &str, site: Site) {
    println!("\n{store}: one task, median");
    let backend = leasehold::open(&*site.url).await.unwrap();
    backend.init(&Init::new().with_first_use(true).with_records_complete(true)).await.unwrap();
    let client = LockClient::new(backend);
    let promised = client.guarantees();
    assert!(promised.record.holds(), "{store}: {}", promised.record);
    run(client.lock("has run")).await;
    let guard: Arc<Guard> = Arc::new(client.lock("held").acquire().await.unwrap());
    let done = client.clone();
    let kinds = [
        (
            "a pair",
            fresh(
                &client,
                |lock| async move { lock.acquire().await.unwrap().release().await.unwrap() },
            ),
        ),
        ("a job that is due: begin and succeeded", fresh(&client, run)),
        (
            "a job that is not due: begin",
            call(move |_| {
                let job = done.lock("has run").once_per(DAY);
                async move {
                    assert!(matches!(job.begin().await.unwrap(), Decision::NotDue(_)));
                }
            }),
        ),
        (
            "the write of a record",
            call(move |_| {
                let guard = Arc::clone(&guard);
                async move { guard.write_record(VALUE, DAY).await.unwrap() }
            }),
        ),
        ("the update of a row or key", Arc::clone(&site.update)),
    ];
    let seen = latencies(&kinds).await;
    println!(
        "  due / pair: {:.2}; not due / pair: {:.2}; record / update: {:.2}",
        seen.ratio(1, 0),
        seen.ratio(2, 0),
        seen.ratio(3, 4)
    );
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if let Some(unknown) = args.iter().find(|arg| !STORES.contains(&arg.as_str())) {
        panic!("{unknown} must be one of {STORES:?}");
    }
    for store in STORES {
        if !args.is_empty() && !args.iter().any(|arg| arg == store) {
            continue;
        }
        let site = match store {
            "redis" => redis().await,
            "postgres" => postgres().await,
            _ => sqlite().await,
        };
        measure(store, site).await;
    }
}
