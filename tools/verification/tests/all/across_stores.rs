//! Several locks in different stores at once: a real Redis and a real PostgreSQL.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use leasehold::{Init, LockClient, all, any};
use servers::{Postgres, PostgresOptions, Redis, RedisOptions, Server as _};

/// Longer than any wait that is only slow.
const STUCK: Duration = Duration::from_secs(60);

struct Stores {
    urls: [String; 2],
    _servers: (Redis, Postgres),
}

impl Stores {
    async fn start() -> Self {
        let redis = Redis::start(RedisOptions::new()).await.unwrap();
        let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
        let urls = [
            format!("redis://{}", redis.address()),
            format!("postgres://postgres@{}/postgres", postgres.address()),
        ];
        for url in &urls {
            let store = leasehold::open(url).await.unwrap();
            store.init(&Init::new().with_first_use(true)).await.unwrap();
            store.close().await;
        }
        Self { urls, _servers: (redis, postgres) }
    }

    /// Clients of both stores, as another process would have.
    async fn clients(&self) -> [LockClient; 2] {
        let [redis, postgres] = &self.urls;
        [leasehold::connect(redis).await.unwrap(), leasehold::connect(postgres).await.unwrap()]
    }
}

/// The same name in both stores, and another: the order is that of names, and then of the stores'
/// identities.
#[tokio::test(flavor = "multi_thread")]
async fn opposite_orders_across_redis_and_postgres_both_finish() {
    const TIMES: usize = 100;
    let stores = Stores::start().await;
    let inside = AtomicUsize::new(0);
    let process = async |backwards: bool| {
        let [redis, postgres] = stores.clients().await;
        for _ in 0..TIMES {
            let mut locks = vec![redis.lock("b"), postgres.lock("a"), redis.lock("a")];
            if backwards {
                locks.reverse();
            }
            let guards = all(locks)
                .wait(STUCK)
                .acquire()
                .await
                .expect("`all` is granted, without a deadlock");
            let others = inside.fetch_add(1, Ordering::SeqCst);
            assert_eq!(others, 0, "both processes hold all three locks");
            tokio::task::yield_now().await;
            assert!(guards.is_valid());
            inside.fetch_sub(1, Ordering::SeqCst);
            guards.release().await.unwrap();
        }
    };
    join_all([process(false), process(true)]).await;
}

/// If one store is down, `any` gives a lock of the other.
#[tokio::test(flavor = "multi_thread")]
async fn any_passes_over_a_store_that_is_down() {
    let Stores { urls, _servers: (mut redis, _postgres) } = Stores::start().await;
    let [one, two] = [&urls[0], &urls[1]];
    let [one, two] =
        [leasehold::connect(one).await.unwrap(), leasehold::connect(two).await.unwrap()];
    redis.kill().unwrap();
    let guard = any([one.lock("gpu"), two.lock("gpu")]).wait(STUCK).acquire().await.unwrap();
    assert_eq!(guard.grant().name.as_str(), "gpu");
    assert!(
        two.lock("gpu").try_acquire().await.unwrap().guard().is_none(),
        "the guard of `any` does not hold the lock in the store that is up"
    );
}
