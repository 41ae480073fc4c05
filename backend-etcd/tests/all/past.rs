//! The keys that released locks leave behind in etcd's key history.

use std::collections::HashSet;

use etcd_client::{Client, WatchOptions};
use lock_core::LockClient;
use servers::Etcd;
use tokio::time::timeout;

use crate::support::{WAIT, name, pair};

/// All keys with a prefix that ever existed, and how often one was created.
async fn past_keys(etcd: &Etcd, prefix: &str) -> (HashSet<String>, usize) {
    let client = Client::connect([etcd.endpoints()[0].to_string()], None).await.unwrap();
    let last = client.kv_client().put("the end", "", None).await.unwrap();
    let last = last.header().unwrap().revision();
    let options = WatchOptions::new().with_range("~").with_start_revision(1);
    let mut watch = client.watch_client().watch("\0", Some(options)).await.unwrap();
    let (mut keys, mut made) = (HashSet::new(), 0);
    loop {
        let answer = timeout(WAIT, watch.message()).await.expect("past events").unwrap().unwrap();
        for event in answer.events() {
            let pair = event.kv().unwrap();
            if pair.mod_revision() == last {
                return (keys, made);
            }
            let key = pair.key_str().unwrap();
            if key.starts_with(prefix) && pair.create_revision() == pair.mod_revision() {
                made += 1;
                keys.insert(key.to_owned());
            }
        }
    }
}

/// To find the entries of a name, etcd walks over all keys that the name ever had, until they are
/// compacted.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_held_very_often_leaves_few_keys_behind() {
    let (etcd, clients) = pair().await;
    let clients = clients.map(LockClient::new);
    for _ in 0..50 {
        clients[0].lock(name()).acquire().await.unwrap().release().await.unwrap();
    }
    // By several tasks of each of the two clients.
    let tasks = clients.iter().cycle().take(6).map(|client| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                let lock = client.lock(name()).wait(WAIT);
                lock.clone().acquire().await.unwrap().release().await.unwrap();
                lock.shared().acquire().await.unwrap().release().await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let (keys, made) = past_keys(&etcd, "leasehold/job/").await;
    assert!(made >= 350, "{made} entries");
    let (readers, writers): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.contains('~'));
    // For each client: one that holds, one that waits, and one whose outcome was not known yet.
    assert!(writers.len() <= 6, "{made} entries had these keys: {keys:?}");
    // For each task one, and for each client one whose outcome was not known yet.
    assert!(!readers.is_empty() && readers.len() <= 8, "{made} entries had these keys: {keys:?}");
}
