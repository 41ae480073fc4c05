//! Runs over real servers: what is left on them, and that one in use is refused.

use std::{
    future::pending,
    time::{Duration, Instant},
};

use etcd_client::{Client, GetOptions};
use leasehold::{ErrorKind, zookeeper::zookeeper_client};
use measurements::{Comparison, Local, Measure, Plan, Store};
use tokio::time::sleep;

/// How long the test waits for an event before it fails.
const HANG: Duration = Duration::from_secs(120);

/// What bears the word "compare" on a server: keys and tables.
async fn left(store: &Store) -> Vec<String> {
    let url = store.url.expose();
    let plain = url.split('?').next().unwrap();
    let tables = "SELECT CAST(table_name AS CHAR(64)) FROM information_schema.tables \
                  WHERE table_name LIKE '%compare%'";
    match store.url.scheme() {
        "redis" | "redlock" => {
            let mut keys = Vec::new();
            for host in plain.split_once("://").unwrap().1.split(',') {
                let client = redis::Client::open(format!("redis://{host}")).unwrap();
                let mut connection = client.get_multiplexed_async_connection().await.unwrap();
                let mut all = redis::cmd("KEYS");
                let found: Vec<String> =
                    all.arg("*compare*").query_async(&mut connection).await.unwrap();
                keys.extend(found);
            }
            keys
        }
        "etcd" => {
            let client =
                Client::connect([plain.trim_start_matches("etcd://")], None).await.unwrap();
            let all = GetOptions::new().with_all_keys().with_keys_only();
            let answer = client.kv_client().get("", Some(all)).await.unwrap();
            let keys = answer.kvs().iter().map(|kv| String::from_utf8_lossy(kv.key()).into_owned());
            keys.filter(|key| key.contains("compare")).collect()
        }
        "zookeeper" => {
            let host = plain.trim_start_matches("zookeeper://");
            let client = zookeeper_client::Client::connect(host).await.unwrap();
            let nodes = client.list_children("/").await.unwrap();
            nodes.into_iter().filter(|node| node.contains("compare")).collect()
        }
        "postgres" => {
            let pool = sqlx::PgPool::connect(plain).await.unwrap();
            sqlx::query_scalar(tables).fetch_all(&pool).await.unwrap()
        }
        _ => {
            let pool = sqlx::MySqlPool::connect(plain).await.unwrap();
            sqlx::query_scalar(tables).fetch_all(&pool).await.unwrap()
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_on_a_server_and_one_in_use_is_refused() {
    let mut local = Local::start().await;
    assert!(local.absent.is_empty(), "{:?}", local.absent);
    let stores = std::mem::take(&mut local.stores);
    let plan = Plan::new(Duration::from_secs(6)).unwrap();
    let run = |stores| Comparison::new(stores, plan);
    let report = run(stores.clone()).run(&mut (), pending()).await.unwrap().unwrap();
    assert_eq!(report.stores.len(), 6);
    for store in &report.stores {
        assert!(store.no_floor.is_none(), "{store:?}");
        for measure in [Measure::Pair, Measure::Pairs, Measure::Uncontended, Measure::ManyNames] {
            assert!(store.figure(measure).is_some(), "{measure:?}: {store:?}");
        }
    }
    // Stopped in the middle, too.
    let stop = sleep(Duration::from_secs(1));
    assert!(run(stores.clone()).run(&mut (), stop).await.unwrap().is_none());
    let stopped = Instant::now();
    for store in &stores {
        let page = leasehold::open(store.url.clone()).await.unwrap().list(None).await.unwrap();
        assert!(page.locks.iter().all(|lock| lock.holder.is_none()), "{:?}", page.locks);
        // Nobody holds a lock, at a majority. A Redlock frees what was slow behind its callers.
        loop {
            let left = left(store).await;
            if left.is_empty() {
                break;
            }
            assert!(stopped.elapsed() < HANG, "{}: {left:?}", store.name);
            sleep(Duration::from_millis(20)).await;
        }
    }
    for store in stores {
        let client = leasehold::connect(store.url.clone()).await.unwrap();
        let held = client.lock("nightly").acquire().await.unwrap();
        let error = run(vec![store]).run(&mut (), pending()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("\"nightly\" is held"), "{error}");
        held.release().await.unwrap();
    }
}
