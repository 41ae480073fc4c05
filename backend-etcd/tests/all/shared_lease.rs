//! Why every entry has a lease of its own.

use std::collections::HashSet;

use etcd_client::{Client, LockOptions};
use lock_core::{Attempt, Enqueued};

use crate::support::{connect, leases, request, single};

#[tokio::test(flavor = "multi_thread")]
async fn etcds_own_lock_call_gives_a_lock_to_all_who_share_a_lease() {
    let etcd = single().await;
    let client = Client::connect([etcd.endpoints()[0].to_string()], None).await.unwrap();
    let lease = client.lease_client().grant(30, None).await.unwrap().id();
    let mut keys = HashSet::new();
    for _ in 0..3 {
        let options = LockOptions::new().with_lease(lease);
        // The second would have to wait; its key is that of the first, which stands there already.
        let locked = client.lock_client().lock("job", Some(options)).await.unwrap();
        keys.insert(locked.key().to_vec());
    }
    assert_eq!(keys.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_client_never_share_a_lease() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let mut held = Vec::new();
    let mut turns = Vec::new();
    for _ in 0..40 {
        // A refused attempt gives its lease back for the next; a place keeps it.
        match backend.try_acquire(&request()).await.unwrap() {
            Attempt::Granted(grant) => held.push(grant),
            Attempt::Busy(_) => {}
            Attempt::Quarantined(held_back) => panic!("{held_back:?}"),
        }
        match backend.enqueue(&request()).await.unwrap() {
            Enqueued::Waiting(turn, _) => turns.push(turn),
            other => panic!("two holders: {other:?}"),
        }
    }
    assert_eq!(held.len(), 1);
    let leases: HashSet<i64> = leases(&etcd, "job").await.into_iter().collect();
    assert_eq!(leases.len(), 41, "{leases:?}");
}
