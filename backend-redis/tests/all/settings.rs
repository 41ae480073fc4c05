//! A setting that changes on a running server shows in the guarantees without a request. And if an
//! operator changes a setting while a lock is held, there is no second holder.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Backend, Env as _, ErrorKind, Init, LockClient, Promise, ReleaseOptions, ReleaseOutcome,
    Renewal, SystemEnv,
};
use servers::{Redis, RedisOptions, wait::until};

use crate::support::{changes, clusters, connect, granted, replica_of, request, server, url};

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);

async fn set(server: &Redis, option: &str, value: &str) {
    assert_eq!(server.cli(&["CONFIG", "SET", option, value]).await.unwrap(), "OK");
}

/// Waits until the guarantee of exclusion contains this text.
async fn promised(store: &dyn Backend, part: &str) {
    until(part, SOON, || async {
        let said = match &store.guarantees().exclusion {
            Promise::Holds { assuming } => format!("holds: {assuming:?}"),
            Promise::Withheld { why } => format!("withheld: {why}"),
        };
        Ok(said.contains(part).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn what_limits_an_old_master_shows_when_it_is_changed() {
    let options = RedisOptions::new().line("repl-diskless-sync-delay 0");
    let master = Redis::start(options.clone()).await.unwrap();
    let _replica = replica_of(&master, options).await;
    let store = connect(&url(&master)).await;
    promised(&*store, "withheld: the server keeps accepting writes without its replicas").await;
    set(&master, "min-replicas-max-lag", "4").await;
    set(&master, "min-replicas-to-write", "1").await;
    promised(&*store, "it has stopped writing 9s after").await;
    set(&master, "min-replicas-max-lag", "6").await;
    promised(&*store, "it has stopped writing 11s after").await;
    set(&master, "min-replicas-to-write", "0").await;
    promised(&*store, "withheld: the server keeps accepting writes without its replicas").await;
}

#[tokio::test]
async fn a_policy_that_may_evict_shows_when_it_is_set() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    promised(&*store, "holds").await;
    set(&server, "maxmemory-policy", "volatile-lru").await;
    promised(&*store, "withheld: the server's maxmemory-policy is volatile-lru").await;
    // A client that allows eviction is promised no more.
    let allowing = connect(&format!("{}?allow_eviction=true", url(&server))).await;
    assert!(!allowing.guarantees().exclusion.holds());
    set(&server, "maxmemory-policy", "noeviction").await;
    promised(&*store, "holds").await;
    promised(&*allowing, "holds").await;
}

/// Holders keep their locks, and other clients learn why they get none.
#[tokio::test]
async fn nothing_is_granted_while_a_policy_may_evict() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let client = LockClient::new(Arc::clone(&store));
    let guard = client.lock("held").lease(LEASE).acquire().await.unwrap();
    let waiter = tokio::spawn(client.lock("held").lease(LEASE).acquire());
    let held = granted(&*store, &request("job", LEASE)).await;
    set(&server, "maxmemory-policy", "volatile-lru").await;
    promised(&*store, "withheld: the server's maxmemory-policy is volatile-lru").await;

    let told = tokio::time::timeout(SOON, waiter).await.unwrap().unwrap().unwrap_err();
    let next = request("job", LEASE);
    let attempt = store.try_acquire(&request("other", LEASE)).await.unwrap_err();
    for error in [told, attempt, store.enqueue(&next).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("maxmemory-policy is volatile-lru"), "{error}");
    }
    let answers = store.renew(&[&held], SystemEnv.now()).await;
    assert!(matches!(answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
    let options = ReleaseOptions::new().with_next(&next);
    let released = store.release(&held, options).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    assert!(released.next.is_none(), "{released:?}");
    assert!(guard.is_valid());
    // A client that allows eviction gets its grants.
    let allowing = connect(&format!("{}?allow_eviction=true", url(&server))).await;
    granted(&*allowing, &request("allowed", LEASE)).await;

    set(&server, "maxmemory-policy", "noeviction").await;
    promised(&*store, "holds").await;
    granted(&*store, &next).await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_timeout_of_one_node_of_a_cluster_shows_when_it_is_changed() {
    let cluster = clusters::cluster(0, "").await;
    let store = connect(&clusters::url(&cluster, "")).await;
    promised(&*store, "it has stopped writing 7s after").await;
    set(&cluster.nodes()[1], "cluster-node-timeout", "3000").await;
    promised(&*store, "it has stopped writing 10s after").await;
}

fn one(servers: &[Redis], options: &str) -> changes::Connecting {
    let url = format!("{}?{options}", url(&servers[0]));
    Box::pin(async move { connect(&url).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_of_a_setting_and_no_loss_of_data_admit_two_holders() {
    changes::try_all(1, one).await;
}

#[tokio::test]
async fn used_up_tokens_are_reported_and_set_back() {
    changes::try_used_up_tokens(1, "leasehold:{0}:epoch", one).await;
}

/// The longest lease also binds renewals in buckets other than that of `init`.
#[tokio::test]
async fn a_lowered_longest_lease_binds_renewals_in_each_bucket() {
    let cluster = clusters::cluster(0, "").await;
    let store = connect(&clusters::url(&cluster, "")).await;
    let mut held = Vec::new();
    for number in 0..8 {
        held.push(granted(&*store, &request(&format!("job {number}"), LEASE)).await);
    }
    let short = Duration::from_secs(2);
    let init = Init::new().with_longest_lease(short);
    let operator = connect(&clusters::url(&cluster, "")).await;
    assert!(operator.init(&init).await.unwrap().grants_in >= LEASE);
    let held: Vec<_> = held.iter().collect();
    for answer in store.renew(&held, SystemEnv.now()).await {
        assert!(matches!(answer, Renewal::Renewed { lease, .. } if lease == short), "{answer:?}");
    }
}
