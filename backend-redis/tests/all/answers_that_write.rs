//! With `wait_replicas`, each answer that a holder believes must have written. Valkey 8 lets WAIT
//! cover only what a call has written: without a write, replicas that hang or are cut off seem to
//! acknowledge.

use std::{path::PathBuf, sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Enqueued, Env as _, ErrorKind, Grant, Mode, ReleaseOptions, Renewal, Request,
    SystemEnv,
};
use servers::{Redis, RedisOptions, Server as _};

use crate::{
    support::{connect, enqueued, granted, renewed, request, url},
    wait_replicas::{PATIENT, replicated_by},
};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_secs(5);

fn reader(lease: Duration) -> Request {
    request("readers", lease).with_mode(Mode::Shared)
}

/// The same request with a short lease. The key's expiry is later already.
fn shortened(request: &Request) -> Request {
    let mut short = request.clone();
    short.lease = SHORT;
    short
}

async fn offset(master: &Redis) -> u64 {
    master.info("master_repl_offset").await.unwrap().parse().unwrap()
}

/// Asserts that a call writes to the replicas.
async fn writes<T>(master: &Redis, what: &str, call: impl Future<Output = T>) -> T {
    let before = offset(master).await;
    let answer = call.await;
    assert!(offset(master).await > before, "{what}: WAIT has nothing to wait for");
    answer
}

#[tokio::test]
async fn each_answer_that_keeps_a_validity_is_sent_to_the_replicas() {
    // Nothing else moves the offset: no pings, and no WAIT, which asks the replicas by the same
    // stream.
    let quiet = RedisOptions::new().line("repl-ping-replica-period 3600");
    let (master, _replicas, _) = replicated_by(quiet, PATIENT).await;
    let store = connect(&url(&master)).await;

    let asked = request("a", LONG);
    let mut held = granted(&*store, &asked).await;
    writes(&master, "a repeat", granted(&*store, &shortened(&asked))).await;
    held.lease = SHORT;
    writes(&master, "a renewal", renewed(&*store, &[&held])).await;

    let next = request("a", LONG);
    let carry = || store.release(&held, ReleaseOptions::new().with_next(&next));
    let Some(Enqueued::Granted(_)) = writes(&master, "a release", carry()).await.unwrap().next
    else {
        panic!("the next request was not granted")
    };
    let again = writes(&master, "a repeated release", carry()).await.unwrap().next;
    let Some(Enqueued::Granted(held)) = again else { panic!("{again:?}") };

    let waiter = request("a", LONG);
    let (_turn, _) = enqueued(&*store, &waiter).await;
    store.release(&held, ReleaseOptions::default()).await.unwrap();
    writes(&master, "a claim", granted(&*store, &waiter)).await;
    writes(&master, "a claim again", granted(&*store, &shortened(&waiter))).await;

    let writer = granted(&*store, &request("readers", LONG)).await;
    let [long, short] = [reader(LONG), reader(SHORT)];
    let (_long, _) = enqueued(&*store, &long).await;
    let (_short, _) = enqueued(&*store, &short).await;
    store.release(&writer, ReleaseOptions::default()).await.unwrap();
    writes(&master, "a reader's claim", granted(&*store, &long)).await;
    let grant = writes(&master, "a claim beside a long lease", granted(&*store, &short)).await;
    writes(&master, "a reader's repeat", granted(&*store, &short)).await;
    writes(&master, "a reader's renewal", renewed(&*store, &[&grant])).await;
    writes(&master, "a join", granted(&*store, &reader(SHORT))).await;
}

/// What a store answers while a replica hangs, which is still connected: nothing that counts.
async fn nothing_counts_while_a_replica_hangs(server: RedisOptions) {
    let (master, replicas, patient) = replicated_by(server, PATIENT).await;
    let store = connect(&patient).await;
    let asked = request("a", LONG);
    let mut held = granted(&*store, &asked).await;
    held.lease = SHORT;
    granted(&*store, &reader(LONG)).await;
    let short = reader(SHORT);
    let inside = granted(&*store, &short).await;

    replicas[1].pause().unwrap();
    let store = connect(&format!("{}?wait_replicas=2&wait_timeout=1s", url(&master))).await;
    for grant in [&held, &inside] {
        uncertain(&store, grant).await;
    }
    for request in [&reader(SHORT), &short, &shortened(&asked)] {
        let answer = store.try_acquire(request).await;
        let told = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable);
        assert!(told, "{:?}: {answer:?}", request.mode);
    }
    replicas[1].resume().unwrap();
    let store = connect(&patient).await;
    let free = store.try_acquire(&request("a", LONG)).await.unwrap();
    assert!(matches!(free, Attempt::Granted(_)), "what does not count is given back: {free:?}");
}

async fn uncertain(store: &Arc<dyn Backend>, grant: &Grant) {
    let answer = store.renew(&[grant], SystemEnv.now()).await.pop();
    assert!(matches!(answer, Some(Renewal::Unknown(_))), "{}: {answer:?}", grant.name);
}

#[tokio::test]
async fn nothing_counts_while_a_replica_of_redis_hangs() {
    nothing_counts_while_a_replica_hangs(RedisOptions::new()).await;
}

/// The `valkey-server` that the environment names, or that of the PATH.
fn valkey() -> PathBuf {
    if let Some(named) = std::env::var_os("LEASEHOLD_VALKEY") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("valkey-server"));
    found.into_iter().find(|program| program.is_file()).expect(
        "this test needs valkey-server 8 or later, on the PATH or as a path in LEASEHOLD_VALKEY",
    )
}

#[tokio::test]
#[ignore = "needs valkey-server 8 or later, on the PATH or as a path in LEASEHOLD_VALKEY; scripts/soak runs it"]
async fn nothing_counts_while_a_replica_of_valkey_hangs() {
    let options = RedisOptions::new().program(valkey());
    let server = Redis::start(options.clone()).await.unwrap();
    let version = server.info("valkey_version").await.unwrap();
    let major: u64 = version.split('.').next().unwrap().parse().unwrap();
    assert!(major >= 8, "valkey-server {version}; the test needs 8 or later");
    nothing_counts_while_a_replica_hangs(options).await;
}
