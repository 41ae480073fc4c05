//! What a lock costs in phase `Both` of a migration, beside the same calls made by hand: a lock in each store
//! and at most one raise. The stores alone stand beside them.
//!
//! `cargo bench -p benchmarks --bench migration [ROUNDS]`

#![allow(clippy::unwrap_used, missing_docs)]

use std::{any::Any, sync::Arc, time::Duration};

use backend_migration::{Migration, Phase};
use benchmarks::{Meter, Round, Table};
use conformance_tests::kit::{
    Etcd, EtcdOptions, Postgres, PostgresOptions, Redis, RedisOptions, Server as _,
};
use lock_core::{
    Backend, Env as _, FencingToken, Init, LockName, OwnerId, OwnerLabel, ReleaseOptions, Request,
    SystemEnv,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;

const SPAN: Duration = Duration::from_millis(300);

type Running = (Arc<dyn Backend>, Box<dyn Any>);

/// This process alone.
struct Here;

impl Meter for Here {
    fn read(&self) -> (Duration, Duration) {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        (Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32), Duration::ZERO)
    }
}

async fn ready(store: Arc<dyn Backend>) -> Arc<dyn Backend> {
    store.init(&Init::new().with_first_use(true)).await.unwrap();
    store
}

async fn redis() -> Running {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}", server.address());
    (ready(backend_redis::connect(&url).await.unwrap()).await, Box::new(server))
}

async fn etcd() -> Running {
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let url = format!("etcd://{}", etcd.endpoints()[0]);
    (ready(backend_etcd::connect(&url).await.unwrap()).await, Box::new(etcd))
}

async fn postgres() -> Running {
    let server = Postgres::start(PostgresOptions::new()).await.unwrap();
    let url = format!("postgres://postgres@{}/postgres", server.address());
    (ready(backend_sql::postgres::connect(&url).await.unwrap()).await, Box::new(server))
}

async fn sqlite() -> Running {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    (ready(backend_sql::sqlite::connect(&url).await.unwrap()).await, Box::new(folder))
}

fn request(name: &str, lease: Duration) -> Request {
    let (name, label) = (LockName::new(name).unwrap(), OwnerLabel::new("bench").unwrap());
    let owner = OwnerId::from_bits(SystemEnv.random());
    Request::new(name, owner, label, lease, SystemEnv.now())
}

async fn lock(store: &Arc<dyn Backend>, name: &str, lease: Duration) {
    let grant = store.try_acquire(&request(name, lease)).await.unwrap();
    store.release(&grant.granted().unwrap(), ReleaseOptions::default()).await.unwrap();
}

/// What a migration does, without it: the second store's token is asked to be no less than the first's,
/// and the lower one is raised.
async fn by_hand(stores: &[Arc<dyn Backend>; 2], lease: Duration) {
    let mut request = request("hand", lease);
    let first = stores[0].try_acquire(&request).await.unwrap().granted().unwrap();
    request.floor = FencingToken::new(first.token.get() - 1).unwrap();
    let second = stores[1].try_acquire(&request).await.unwrap().granted().unwrap();
    if first.token < second.token {
        stores[0].raise(&first, second.token).await.unwrap();
    }
    if second.token < first.token {
        stores[1].raise(&second, first.token).await.unwrap();
    }
    stores[1].release(&second, ReleaseOptions::default()).await.unwrap();
    stores[0].release(&first, ReleaseOptions::default()).await.unwrap();
}

async fn pair(rounds: usize, names: [&str; 2], running: [Running; 2]) {
    let stores = running.each_ref().map(|(store, _)| Arc::clone(store));
    let both = Migration::new(Arc::clone(&stores[0]), Arc::clone(&stores[1]), Phase::Both);
    let both: Arc<dyn Backend> = Arc::new(both.await.unwrap());
    let identities = [stores[0].identity().await.unwrap(), stores[1].identity().await.unwrap()];
    let (mut ordered, mut first) = (stores.clone(), names[0]);
    if identities[0] > identities[1] {
        ordered.reverse();
        first = names[1];
    }
    let lease = both.guarantees().longest_lease;
    let mut table = Table::default();
    // The first round warms up.
    for round in 0..=rounds {
        let of = [
            (
                "the same calls by hand",
                Round::of(&Here, SPAN, async || {
                    by_hand(&ordered, lease).await;
                })
                .await,
            ),
            ("both", Round::of(&Here, SPAN, async || lock(&both, "both", lease).await).await),
            (
                names[0],
                Round::of(&Here, SPAN, async || lock(&stores[0], "alone", lease).await).await,
            ),
            (
                names[1],
                Round::of(&Here, SPAN, async || lock(&stores[1], "alone", lease).await).await,
            ),
        ];
        if round > 0 {
            of.into_iter().for_each(|(name, round)| table.add(name, round));
        }
    }
    table.print(&format!("{} to {}, of which {first} is asked first", names[0], names[1]));
}

fn main() {
    let rounds = std::env::args().filter_map(|argument| argument.parse().ok()).next();
    let rounds = rounds.unwrap_or(15);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        pair(rounds, ["redis", "etcd"], [redis().await, etcd().await]).await;
        pair(rounds, ["sqlite", "postgres"], [sqlite().await, postgres().await]).await;
    });
}
