//! The queue: lost leases, compaction, and its cost for etcd.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::Etcd;
use futures_util::future::join_all;
use lock_core::{
    Backend, Enqueued, Env as _, LockClient, LockName, OwnerId, OwnerLabel, ReleaseOptions,
    Renewal, Request, Signal, SystemEnv,
};
use tokio::{task::JoinSet, time::timeout};

use crate::support::{connect, leases, single};

/// Far more than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn start() -> (Etcd, Arc<dyn Backend>) {
    let etcd = single().await;
    let url = format!("etcd://{}", etcd.endpoints()[0]);
    let backend = backend_etcd::connect(&url).await.unwrap();
    (etcd, backend)
}

fn request(name: &str) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::new("queue").unwrap();
    Request::new(LockName::new(name).unwrap(), owner, label, PATIENCE, SystemEnv.now())
}

/// The lease of the newest place of a name, in etcd's spelling.
async fn newest_lease(etcd: &Etcd, name: &str) -> String {
    format!("{:x}", leases(etcd, name).await[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_lease_is_revoked_learns_it_and_waits_anew() {
    let (etcd, backend) = start().await;
    let holder = backend.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    let Enqueued::Waiting(mut turn, _) = backend.enqueue(&request("job")).await.unwrap() else {
        panic!("two holders");
    };
    let lease = newest_lease(&etcd, "job").await;
    etcd.ctl(&["lease", "revoke", &lease]).await.unwrap();
    let signal = timeout(PATIENCE, turn.next()).await.expect("it is told");
    assert!(matches!(signal, Signal::Lost(_)), "{signal:?}");

    // The core takes a new place.
    let client = LockClient::new(Arc::clone(&backend));
    let waiting = client.lock("job").wait(PATIENCE).acquire();
    let free = async {
        while backend.inspect(&holder.name).await.unwrap().unwrap().waiting != Some(1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let lease = newest_lease(&etcd, "job").await;
        etcd.ctl(&["lease", "revoke", &lease]).await.unwrap();
        backend.release(&holder, ReleaseOptions::default()).await.unwrap();
    };
    let (guard, ()) = tokio::join!(waiting, free);
    assert!(guard.unwrap().token() > holder.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_during_a_wait_loses_nothing() {
    let (etcd, backend) = start().await;
    let client = LockClient::new(Arc::clone(&backend));
    let guard = client.lock("job").acquire().await.unwrap();
    let other = LockClient::new(
        backend_etcd::connect(&format!("etcd://{}", etcd.endpoints()[0])).await.unwrap(),
    );
    let waiting = tokio::spawn(other.lock("job").wait(PATIENCE).acquire());
    let name = LockName::new("job").unwrap();
    while backend.inspect(&name).await.unwrap().unwrap().waiting != Some(1) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let status = etcd.ctl(&["endpoint", "status", "--write-out=fields"]).await.unwrap();
    let line = status.lines().find(|line| line.starts_with("\"Revision\"")).unwrap();
    let revision = line.rsplit(' ').next().unwrap();
    let said = etcd.ctl(&["compact", revision]).await.unwrap();
    assert!(said.contains("compacted"), "{said}");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_waiters_open_one_watch_and_a_thousand_locks_one_keepalive_stream() {
    let (etcd, backend) = start().await;
    let member = &etcd.members()[0];
    let watchers = "etcd_debugging_mvcc_watcher_total";
    let before = member.metric(watchers).await.unwrap();
    let streams = "grpc_server_started_total{grpc_method=\"LeaseKeepAlive\",\
                   grpc_service=\"etcdserverpb.Lease\",grpc_type=\"bidi_stream\"}";
    let (mut kept, mut held) = (Vec::new(), Vec::new());
    let requests: Vec<_> = (0..2_000).map(|at| request(&format!("job {}", at / 2))).collect();
    // Many at once: the last is asked for while the lease of the first has not ended.
    for some in requests.chunks(100) {
        let answers = join_all(some.iter().map(|request| backend.enqueue(request))).await;
        for (asked, answer) in some.iter().zip(answers) {
            match answer.unwrap() {
                Enqueued::Granted(grant) => held.push(grant),
                Enqueued::Waiting(turn, _) => kept.push((asked.clone(), turn)),
                Enqueued::Quarantined(held_back) => panic!("{held_back:?}"),
            }
        }
    }
    assert_eq!((held.len(), kept.len()), (1_000, 1_000));
    let grants: Vec<_> = held.iter().collect();
    for answer in backend.renew(&grants, SystemEnv.now()).await {
        assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
    }
    let opened = member.metric(streams).await.unwrap();
    assert!((opened - 1.0).abs() < 0.5, "{opened} keepalive streams");
    // The names are many: one watch has taken the place of those of the first few.
    let opened = async {
        while (member.metric(watchers).await.unwrap() - before - 1.0).abs() > 0.5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, opened).await.expect("one watch");
    // It tells of each end.
    for grant in &held {
        backend.release(grant, ReleaseOptions::default()).await.unwrap();
    }
    for (asked, mut turn) in kept {
        while {
            timeout(PATIENCE, turn.next()).await.expect("it is woken");
            backend.try_acquire(&asked).await.unwrap().granted().is_none()
        } {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_client_is_told_of_the_names_that_it_waits_for_and_of_no_other() {
    let (etcd, backend) = start().await;
    let member = &etcd.members()[0];
    let holder = LockClient::new(Arc::clone(&backend));
    let guard = holder.lock("job").acquire().await.unwrap();
    let waiter = connect(etcd.endpoints()[0], "5s").await;
    let waiting = tokio::spawn(LockClient::new(waiter).lock("job").wait(PATIENCE).acquire());
    let watched = async {
        while member.metric("etcd_debugging_mvcc_watcher_total").await.unwrap() < 0.5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, watched).await.expect("a watch");
    let told = async || member.metric("etcd_debugging_mvcc_events_total").await.unwrap();
    let before = told().await;
    for other in 0..50 {
        let other = holder.lock(format!("other {other}")).acquire().await.unwrap();
        other.release().await.unwrap();
    }
    assert!(told().await - before < 0.5, "{} ends of other names were told", told().await - before);
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(told().await - before > 0.5, "the metric tells nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_told_to_few_clients_however_many_wait() {
    const CLIENTS: u32 = 40;
    /// Those that were near when they entered, and the next one.
    const TOLD: f64 = 10.0;
    let (etcd, backend) = start().await;
    let member = &etcd.members()[0];
    let guard = LockClient::new(Arc::clone(&backend)).lock("job").acquire().await.unwrap();
    let mut clients = Vec::new();
    let mut waiting = JoinSet::new();
    for number in 1..=CLIENTS {
        let client = LockClient::new(connect(etcd.endpoints()[0], "5s").await);
        waiting.spawn(client.lock("job").wait(PATIENCE * 3).acquire());
        clients.push(client);
        let entered = async {
            while member.metric("etcd_debugging_mvcc_watcher_total").await.unwrap()
                < f64::from(number) - 0.5
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, entered).await.expect("a watch for each");
    }
    let told = async || member.metric("etcd_debugging_mvcc_events_total").await.unwrap();
    let before = told().await;
    guard.release().await.unwrap();
    while let Some(guard) = waiting.join_next().await {
        guard.unwrap().unwrap().release().await.unwrap();
    }
    let each = (told().await - before) / f64::from(CLIENTS);
    assert!(each > 0.9, "{each} were told of each end: the metric tells nothing");
    assert!(each < TOLD, "{each} of {CLIENTS} clients were told of each end");

    // Clients no longer watch keys that they followed: keys are used again.
    for _ in 0..3 {
        join_all(clients.iter().map(async |client| {
            let guard = client.lock("job").wait(PATIENCE * 3).acquire().await.unwrap();
            guard.release().await.unwrap();
        }))
        .await;
    }
    let forgotten = async {
        while member.metric("etcd_debugging_mvcc_watcher_total").await.unwrap() > f64::from(CLIENTS)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, forgotten).await.expect("no watches but those of the name");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_reader_is_told_to_no_other_reader() {
    const READERS: u32 = 20;
    let (etcd, backend) = start().await;
    let member = &etcd.members()[0];
    let guard = LockClient::new(Arc::clone(&backend)).lock("job").acquire().await.unwrap();
    let mut clients = Vec::new();
    let mut waiting = JoinSet::new();
    for _ in 0..READERS {
        let client = LockClient::new(connect(etcd.endpoints()[0], "5s").await);
        waiting.spawn(client.lock("job").shared().wait(PATIENCE * 3).acquire());
        clients.push(client);
    }
    let name = LockName::new("job").unwrap();
    let all_wait = async {
        let all = Some(u64::from(READERS));
        while backend.inspect(&name).await.unwrap().unwrap().waiting != all {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, all_wait).await.expect("all wait");
    guard.release().await.unwrap();
    let readers = waiting.join_all().await;
    let told = async || member.metric("etcd_debugging_mvcc_events_total").await.unwrap();
    let before = told().await;
    assert!(before > 0.5, "the end of the writer was told to nobody: the metric tells nothing");
    for reader in readers {
        reader.unwrap().release().await.unwrap();
    }
    let told = told().await - before;
    assert!(told < 1.0, "the ends of {READERS} readers were told {told} times");
}
