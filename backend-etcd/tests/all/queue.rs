//! The queue: lost leases, compaction, and what watches cost etcd.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::{Attempt, Enqueued, Env as _, LockClient, Renewal, Signal, SystemEnv};
use servers::Etcd;
use tokio::{task::JoinSet, time::timeout};

use crate::support::{
    LEASE, WAIT, connect, granted, held_and_waited_for, leases, pair, pushed, queue_of, release,
    request, request_for, revision, single, until, waits, watchers,
};

/// Ends the newest entry of `job`.
async fn revoke_newest(etcd: &Etcd) {
    let lease = format!("{:x}", leases(etcd, "job").await[0]);
    etcd.ctl(&["lease", "revoke", &lease]).await.unwrap();
}

/// How many deletions etcd has reported to watches.
async fn reported(etcd: &Etcd) -> f64 {
    etcd.members()[0].metric("etcd_debugging_mvcc_events_total").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_lease_is_revoked_learns_of_it_and_waits_again() {
    let (etcd, [backend, _]) = pair().await;
    let holder = granted(&*backend, &request()).await;
    let mut waiter = waits(&*backend, &request()).await;
    revoke_newest(&etcd).await;
    let signal = timeout(WAIT, waiter.next()).await.expect("a signal");
    assert!(matches!(signal, Signal::Lost(_)), "{signal:?}");

    // The core makes a new entry.
    let client = LockClient::new(Arc::clone(&backend));
    let waiting = client.lock("job").wait(WAIT).acquire();
    let free = async {
        queue_of(&*backend, 1).await;
        revoke_newest(&etcd).await;
        release(&*backend, &holder).await;
    };
    let (guard, ()) = tokio::join!(waiting, free);
    assert!(guard.unwrap().token() > holder.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_during_a_wait_loses_nothing() {
    let (etcd, [holder, waiter]) = pair().await;
    let (guard, waiting) = held_and_waited_for(holder, waiter).await;
    let said = etcd.ctl(&["compact", &revision(&etcd).await]).await.unwrap();
    assert!(said.contains("compacted"), "{said}");
    guard.release().await.unwrap();
    drop(timeout(WAIT, waiting).await.expect("it is served").unwrap());
}

/// Otherwise the end of one entry would end another.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_client_never_share_a_lease() {
    let (etcd, [backend, _]) = pair().await;
    let (mut held, mut waiters) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        // A refused attempt returns its lease to the pool; an entry keeps it.
        match backend.try_acquire(&request()).await.unwrap() {
            Attempt::Granted(grant) => held.push(grant),
            Attempt::Busy(_) => {}
            Attempt::Quarantined(held_back) => panic!("{held_back:?}"),
        }
        waiters.push(waits(&*backend, &request()).await);
    }
    assert_eq!(held.len(), 1);
    let leases: HashSet<i64> = leases(&etcd, "job").await.into_iter().collect();
    assert_eq!(leases.len(), 41, "{leases:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_waiters_open_one_watch_and_a_thousand_locks_one_keepalive_stream() {
    let etcd = single().await;
    // The last is requested before the lease of the first ends, on a busy machine too.
    let lease = Duration::from_secs(600);
    let backend = connect(etcd.endpoints()[0], "60s&longest_lease=600s").await;
    let before = watchers(&etcd).await;
    let (mut waiters, mut held) = (Vec::new(), Vec::new());
    let request = |at| {
        let mut request = request_for(&format!("job {}", at / 2));
        request.lease = lease;
        request
    };
    let requests: Vec<_> = (0..2_000).map(request).collect();
    for some in requests.chunks(100) {
        let answers = join_all(some.iter().map(|request| backend.enqueue(request))).await;
        for (request, answer) in some.iter().zip(answers) {
            match answer.unwrap() {
                Enqueued::Granted(grant) => held.push(grant),
                Enqueued::Waiting(waiter, _) => waiters.push((request.clone(), waiter)),
                Enqueued::Quarantined(held_back) => panic!("{held_back:?}"),
            }
        }
    }
    assert_eq!((held.len(), waiters.len()), (1_000, 1_000));
    let grants: Vec<_> = held.iter().collect();
    for answer in backend.renew(&grants, SystemEnv.now()).await {
        assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
    }
    let streams = "grpc_server_started_total{grpc_method=\"LeaseKeepAlive\",\
                   grpc_service=\"etcdserverpb.Lease\",grpc_type=\"bidi_stream\"}";
    let opened = etcd.members()[0].metric(streams).await.unwrap();
    assert!((opened - 1.0).abs() < 0.5, "{opened} keepalive streams");
    // With so many names, one watch has replaced those of the first few.
    until("one watch", async || (watchers(&etcd).await - before - 1.0).abs() < 0.5).await;
    // It reports each deletion.
    for grant in &held {
        release(&*backend, grant).await;
    }
    for (request, mut waiter) in waiters {
        pushed(&*backend, &request, &mut *waiter).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_client_gets_no_events_of_other_names() {
    let (etcd, [holder, waiter]) = pair().await;
    let (guard, waiting) = held_and_waited_for(Arc::clone(&holder), waiter).await;
    until("a watch", async || watchers(&etcd).await > 0.5).await;
    let before = reported(&etcd).await;
    let holder = LockClient::new(holder);
    for other in 0..50 {
        let other = holder.lock(format!("other {other}")).acquire().await.unwrap();
        other.release().await.unwrap();
    }
    let more = reported(&etcd).await - before;
    assert!(more < 0.5, "{more} deletions of other names were reported");
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    assert!(reported(&etcd).await - before > 0.5, "the metric counts nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_reported_to_few_clients_however_many_wait() {
    const CLIENTS: u32 = 40;
    /// Those that were near the head when they joined, and the next one.
    const MOST: f64 = 26.0;
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let guard = LockClient::new(connect(address, "5s").await).lock("job").acquire().await.unwrap();
    let mut clients = Vec::new();
    let mut waiting = JoinSet::new();
    for number in 1..=CLIENTS {
        let client = LockClient::new(connect(address, "5s").await);
        waiting.spawn(client.lock("job").wait(WAIT * 3).acquire());
        clients.push(client);
        let wanted = f64::from(number) - 0.5;
        until("a watch of each client", async || watchers(&etcd).await > wanted).await;
    }
    let before = reported(&etcd).await;
    guard.release().await.unwrap();
    while let Some(guard) = waiting.join_next().await {
        guard.unwrap().unwrap().release().await.unwrap();
    }
    let each = (reported(&etcd).await - before) / f64::from(CLIENTS);
    assert!(each > 0.9, "each release was reported {each} times: the metric counts nothing");
    assert!(each < MOST, "each release was reported to {each} of {CLIENTS} clients");

    // Clients no longer watch the keys of their predecessors, which are reused.
    for _ in 0..3 {
        join_all(clients.iter().map(async |client| {
            let guard = client.lock("job").wait(WAIT * 3).acquire().await.unwrap();
            guard.release().await.unwrap();
        }))
        .await;
    }
    until("only watches of the name", async || watchers(&etcd).await <= f64::from(CLIENTS)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_a_reader_is_reported_to_no_other_reader() {
    const READERS: u32 = 20;
    let (etcd, [backend, _]) = pair().await;
    let held = granted(&*backend, &request()).await;
    let mut waiting = JoinSet::new();
    for _ in 0..READERS {
        let client = LockClient::new(connect(etcd.endpoints()[0], "5s").await);
        waiting.spawn(client.lock("job").shared().lease(LEASE).wait(WAIT * 3).acquire());
    }
    queue_of(&*backend, READERS.into()).await;
    release(&*backend, &held).await;
    let readers = waiting.join_all().await;
    let before = reported(&etcd).await;
    assert!(before > 0.5, "the release of the writer was not reported: the metric counts nothing");
    for reader in readers {
        reader.unwrap().release().await.unwrap();
    }
    let more = reported(&etcd).await - before;
    assert!(more < 1.0, "the releases of {READERS} readers were reported {more} times");
}
