//! Grants and renewals that replicas must acknowledge.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Enqueued, Env as _, ErrorKind, LockClient, LossReason, ReleaseOptions,
    ReleaseOutcome, Renewal, SystemEnv,
};
use servers::{Mode, Proxy, Redis, RedisOptions, Server as _, wait::until};

use crate::support::{
    calls,
    clusters::{BUCKET, cluster, owner},
    connect, first_use, granted, name, request,
};

const SOON: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(20);
/// A replica has time to acknowledge, also on a busy machine.
pub(crate) const PATIENT: &str = "wait_timeout=20s&timeout=50s";

/// A master, two replicas, and the URL of a store that waits for both.
async fn replicated(options: &str) -> (Redis, Vec<Redis>, String) {
    replicated_by(RedisOptions::new(), options).await
}

pub(crate) async fn replicated_by(
    server: RedisOptions,
    options: &str,
) -> (Redis, Vec<Redis>, String) {
    let quick = server.line("repl-diskless-sync-delay 0");
    let master = Redis::start(quick.clone()).await.unwrap();
    let follow = format!("replicaof 127.0.0.1 {}", master.address().port());
    let replicas = Redis::start_many(2, quick.line(follow)).await.unwrap();
    until("replicas in step", SOON, || async {
        let known = master.cli(&["INFO", "replication"]).await?;
        Ok((known.matches("state=online").count() == 2).then_some(()))
    })
    .await
    .unwrap();
    let url = format!("{}?wait_replicas=2&{options}", crate::support::url(&master));
    first_use(&*connect(&url).await).await;
    (master, replicas, url)
}

#[tokio::test]
async fn what_is_granted_renewed_or_handed_over_is_on_all_replicas() {
    let (master, replicas, url) = replicated("wait_timeout=4s").await;
    let store = connect(&url).await;
    assert!(store.guarantees().exclusion.holds(), "{:?}", store.guarantees());
    let grant = granted(&*store, &request("a", LEASE)).await;
    for replica in &replicas {
        let kept = replica.cli(&["GET", "leasehold:{0}:lock:a"]).await.unwrap();
        assert!(kept.contains(&grant.token.to_string()), "{kept}");
    }
    let before = calls(&master, "wait").await;
    let answer = store.renew(&[&grant], SystemEnv.now()).await.pop();
    assert!(matches!(answer, Some(Renewal::Renewed { .. })), "{answer:?}");
    assert_eq!(calls(&master, "wait").await, before + 1);
    store.release(&grant, ReleaseOptions::default()).await.unwrap();

    // A push does not count before replicas have acknowledged the grant, but it wakes the waiter at
    // once.
    let [first, second] = [connect(&url).await, connect(&url).await].map(LockClient::new);
    let guard = first.lock(name("a")).acquire().await.unwrap();
    let waiting = tokio::spawn(async move {
        let guard = second.lock(name("a")).wait(SOON).acquire().await.unwrap();
        guard.token()
    });
    until("somebody to wait", SOON, || async {
        Ok((master.cli(&["LLEN", "leasehold:{0}:queue:a"]).await? == "1").then_some(()))
    })
    .await
    .unwrap();
    let (before, token) = (calls(&master, "wait").await, guard.token());
    guard.release().await.unwrap();
    assert!(tokio::time::timeout(SOON, waiting).await.unwrap().unwrap() > token);
    assert!(calls(&master, "wait").await > before);
}

#[tokio::test]
async fn with_too_few_acknowledgements_a_grant_is_released_and_a_renewal_does_not_count() {
    let (master, mut replicas, patient) = replicated(PATIENT).await;
    let store = connect(&patient).await;
    let held = granted(&*store, &request("held", LEASE)).await;
    let client = LockClient::new(store);
    let short = Duration::from_secs(5);
    let guard = client.lock(name("short")).lease(short).acquire().await.unwrap();
    replicas[1].kill().unwrap();

    let hasty = format!("{}?wait_replicas=2&wait_timeout=2s", crate::support::url(&master));
    let store = connect(&hasty).await;
    let error = store.try_acquire(&request("a", LEASE)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && !error.is_ambiguous(), "{error}");
    assert!(error.to_string().contains("1 replicas acknowledged within 2s"), "{error}");
    assert_eq!(store.inspect(&name("a")).await.unwrap(), None);
    let answer = store.renew(&[&held], SystemEnv.now()).await.pop();
    assert!(matches!(answer, Some(Renewal::Unknown(_))), "{answer:?}");
    let state = store.inspect(&name("held")).await.unwrap().unwrap();
    assert_eq!(state.holder.unwrap().owner, held.owner, "an unacknowledged renewal was a release");
    let reason = tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    assert!(matches!(reason, LossReason::Unreachable | LossReason::Expired), "{reason:?}");
    assert!(calls(&master, "wait").await > 3);
}

/// An attempt that waits for the acknowledgement of a replica.
async fn blocked(
    master: &Redis,
    store: &Arc<dyn Backend>,
) -> tokio::task::JoinHandle<Result<Attempt, lock_core::Error>> {
    let (store, asked) = (store.clone(), request("a", Duration::from_secs(30)));
    let waiting = tokio::spawn(async move { store.try_acquire(&asked).await });
    somebody_blocked(master).await;
    waiting
}

/// Waits until a client waits for acknowledgements.
async fn somebody_blocked(master: &Redis) {
    until("the client to be blocked", SOON, || async {
        let clients = master.cli(&["CLIENT", "LIST"]).await?;
        // A client that has waited before still shows "cmd=wait".
        let blocked = |line: &str| {
            let flags = line.split(' ').find_map(|field| field.strip_prefix("flags="));
            line.contains("cmd=wait") && flags.is_some_and(|flags| flags.contains('b'))
        };
        Ok(clients.lines().any(blocked).then_some(()))
    })
    .await
    .unwrap();
}

/// A release has handed the lock to its next request, and the connection breaks before replicas
/// have acknowledged. The caller gets an error, and asks again, since the lock may be held.
#[tokio::test]
async fn a_carried_request_that_may_have_been_granted_is_not_forgotten() {
    let (master, replicas, direct) = replicated("timeout=20s&wait_timeout=10s").await;
    let proxy = Proxy::start(master.address()).await.unwrap();
    let options = "wait_replicas=2&timeout=20s&wait_timeout=10s";
    let store = connect(&format!("redis://{}?{options}", proxy.address())).await;
    let held = granted(&*store, &request("a", LEASE)).await;
    let next = request("a", LEASE);
    let options = ReleaseOptions::new().with_next(&next);
    replicas[1].pause().unwrap();
    let cut = async {
        somebody_blocked(&master).await;
        proxy.set(Mode::Cut).await.unwrap();
    };
    let (answer, ()) = futures_util::future::join(store.release(&held, options), cut).await;
    assert!(proxy.counters().cut > 0, "the fault did not happen");
    let direct = connect(&direct).await;
    let state = direct.inspect(&next.name).await.unwrap().unwrap();
    assert_eq!(state.holder.unwrap().owner, next.owner, "nothing is in doubt");
    assert!(answer.as_ref().is_err_and(lock_core::Error::is_ambiguous), "{answer:?}");

    proxy.set(Mode::Pass).await.unwrap();
    replicas[1].resume().unwrap();
    let released = store.release(&held, options).await.unwrap();
    let Some(Enqueued::Granted(grant)) = released.next else { panic!("{released:?}") };
    assert_eq!(grant.token, state.token);
    let freed = store.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(freed.outcome, ReleaseOutcome::Released);
}

#[tokio::test]
async fn a_master_demoted_during_the_wait_has_granted_nothing() {
    let (master, replicas, url) = replicated("timeout=50s&wait_timeout=40s").await;
    let store = connect(&url).await;
    replicas[1].pause().unwrap();
    let waiting = blocked(&master, &store).await;
    assert_eq!(replicas[0].cli(&["REPLICAOF", "NO", "ONE"]).await.unwrap(), "OK");
    let follow = ["REPLICAOF", "127.0.0.1", &replicas[0].address().port().to_string()];
    assert_eq!(master.cli(&follow).await.unwrap(), "OK");
    let error = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap_err();
    // The lock may be held there. The core asks again or abandons the owner.
    assert!(error.is_retryable() && error.is_ambiguous(), "{error}");
    assert!(error.to_string().contains("became a replica"), "{error}");
    replicas[1].resume().unwrap();
}

/// One WAIT serves all writes before it. So a replica that is down costs all callers one time limit
/// together, not one each.
#[tokio::test]
async fn many_grants_at_once_share_their_waits() {
    let (master, mut replicas, url) = replicated("wait_timeout=4s&timeout=30s").await;
    let store = connect(&url).await;
    let all = |text: &'static str| {
        let attempts = (0..50).map(move |number| request(&format!("{text} {number}"), LEASE));
        let store = &store;
        let tries = attempts.map(|asked| async move { store.try_acquire(&asked).await.is_ok() });
        futures_util::future::join_all(tries)
    };
    let before = calls(&master, "wait").await;
    assert!(all("a").await.iter().all(|granted| *granted));
    let waits = calls(&master, "wait").await - before;
    assert!(waits < 25, "{waits} waits for 50 grants");
    replicas[0].kill().unwrap();
    let before = calls(&master, "wait").await;
    assert!(all("b").await.iter().all(|granted| !granted));
    let waits = calls(&master, "wait").await - before;
    assert!(waits < 25, "{waits} waits, each of one time limit, for 50 refusals");
}

/// Each master waits for its own replicas.
#[tokio::test]
async fn in_a_cluster_what_is_granted_is_on_a_replica_of_its_bucket_and_one_alone_is_held_up() {
    let patient = format!("wait_replicas=1&{PATIENT}");
    let mut cluster = cluster(1, &patient).await;
    let store = connect(&crate::support::clusters::url(&cluster, &patient)).await;
    assert!(store.guarantees().exclusion.holds(), "{:?}", store.guarantees());
    let (_, at) = owner(&cluster, 0).await;
    let held = granted(&*store, &request("a", LEASE)).await;
    let key = format!("{BUCKET}lock:a");
    // A replica lists its keys, but serves none.
    assert_eq!(cluster.nodes()[at + 3].cli(&["KEYS", &key]).await.unwrap(), key);
    let names: Vec<_> = (0..60).map(|number| format!("job {number}")).collect();
    for text in &names {
        granted(&*store, &request(text, LEASE)).await;
    }
    for master in &cluster.nodes()[..3] {
        assert!(calls(master, "wait").await > 1, "a master waited for nobody");
    }

    cluster.node_mut(at + 3).kill().unwrap();
    let hasty = "wait_replicas=1&wait_timeout=2s";
    let store = connect(&crate::support::clusters::url(&cluster, hasty)).await;
    let renewed = store.renew(&[&held], SystemEnv.now()).await.pop();
    assert!(matches!(renewed, Some(Renewal::Unknown(_))), "{renewed:?}");
    let state = store.inspect(&name("a")).await.unwrap().unwrap();
    assert_eq!(state.holder.unwrap().owner, held.owner, "an unacknowledged renewal was a release");
    store.release(&held, ReleaseOptions::default()).await.unwrap();
    let error = store.try_acquire(&request("a", LEASE)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && !error.is_ambiguous(), "{error}");
    assert!(error.to_string().contains("0 replicas acknowledged within 2s"), "{error}");
    assert_eq!(store.inspect(&name("a")).await.unwrap(), None, "it was not given back");
    // The other masters have their replicas.
    let fresh = (0..60).map(|number| request(&format!("other {number}"), LEASE));
    let (mut served, mut refused) = (0, 0);
    for asked in fresh {
        match store.try_acquire(&asked).await {
            Ok(Attempt::Granted(_)) => served += 1,
            Err(error) if error.kind() == ErrorKind::Unavailable => refused += 1,
            other => panic!("{other:?}"),
        }
        if served >= 5 && refused >= 2 {
            return;
        }
    }
    panic!("{served} granted, {refused} refused");
}
