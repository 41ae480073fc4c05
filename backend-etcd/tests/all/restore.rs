//! Restored snapshots: a lost lock is waited out, tokens go on, and nothing else is mistaken for a
//! restore.

use std::{sync::Arc, time::Duration};

use etcd_client::Client;
use lock_core::{
    Attempt, Env as _, ErrorKind, FencingToken, Init, LockClient, Promise, QuarantineUse,
    ReleaseOptions, Renewal, SystemEnv,
};
use servers::{Server as _, Streams};

use tokio::task::JoinSet;

use crate::support::{
    cluster::{Cluster, LONGEST, PATIENCE, attempt, held_back, request},
    entries, granted, leases, queue_of, release, until,
};

const SECOND: Duration = Duration::from_secs(1);

async fn a_lock_lost_in_a_restore_is_waited_out(members: usize) {
    let mut cluster = Cluster::start(members).await;
    let [known, idle] = [cluster.connect().await, cluster.connect().await];
    cluster.save().await;
    let lost = known.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    let ended = lost.from + lost.lease;
    cluster.restore().await;
    // First a client that connects only now: it knows nothing but the settings. Then one that knows
    // the cluster, and one that had the lock.
    let fresh = cluster.connect().await;
    for backend in [&fresh, &idle, &known] {
        let held_back = held_back(&**backend, "job").await;
        assert!(held_back.remaining <= LONGEST, "{held_back:?}");
        assert!(held_back.why.contains("restored"), "{held_back:?}");
    }
    let answer = known.renew(&[&lost], SystemEnv.now()).await.pop().unwrap();
    assert!(matches!(answer, Renewal::Lost(_)), "{answer:?}");
    // The core waits for the end of the quarantine.
    let client = LockClient::new(fresh);
    let next = client.lock("job").lease(LONGEST).wait(PATIENCE).acquire().await.unwrap();
    assert!(SystemEnv.now() >= ended, "granted while the lost one may be believed in");
    assert!(next.token() > lost.token, "{} after {}", next.token(), lost.token);
    // The other clients detect no second restore.
    for (backend, name) in [(&idle, "another"), (&known, "a third")] {
        assert!(attempt(&**backend, &request(name)).await.granted().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_lost_in_a_restore_of_one_member_is_waited_out() {
    a_lock_lost_in_a_restore_is_waited_out(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_lost_in_a_restore_of_three_members_is_waited_out() {
    a_lock_lost_in_a_restore_is_waited_out(3).await;
}

/// The snapshot contains the pooled leases, but not the lock that was taken later with one of them.
async fn a_lease_that_lives_on_does_not_keep_a_lock_that_was_lost(proxied: bool) {
    let mut cluster = Cluster::start(1).await;
    let direct = cluster.etcd.endpoints()[0];
    let proxy = Streams::reconnecting(direct).await.unwrap();
    let address = if proxied { proxy.address() } else { direct };
    let backend = cluster.with_a_pooled_lease(address, || request("job")).await;
    cluster.save().await;
    let before = cluster.etcd.ctl(&["lease", "list"]).await.unwrap();
    let client = LockClient::new(Arc::clone(&backend));
    let guard = client.lock("job").lease(LONGEST).acquire().await.unwrap();
    let lease = format!("{:x}", leases(&cluster.etcd, "job").await[0]);
    assert!(before.contains(&lease), "{lease} is not from the pool: {before}");
    // So that the new settings, which the client soon writes, do not reach the lost revision before
    // the test compares.
    for _ in 0..10 {
        cluster.etcd.ctl(&["put", "lost", ""]).await.unwrap();
    }
    cluster.restore().await;
    let reason = tokio::time::timeout(PATIENCE, guard.lost()).await.expect("a loss");
    let lost = SystemEnv.now();
    let next = LockClient::new(cluster.connect().await).lock("job").lease(LONGEST);
    let next = next.wait(PATIENCE).acquire().await.unwrap();
    assert!(SystemEnv.now() >= lost && !guard.is_valid(), "{reason}");
    assert!(next.token() > guard.token());
    let left = cluster.etcd.ctl(&["lease", "list"]).await.unwrap();
    println!("lost because {reason}; {left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_lives_on_keeps_no_lock_that_was_lost() {
    a_lease_that_lives_on_does_not_keep_a_lock_that_was_lost(false).await;
}

/// The connection to the proxy does not break, but the stream over it does.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_lives_on_behind_a_proxy_keeps_no_lock_that_was_lost() {
    a_lease_that_lives_on_does_not_keep_a_lock_that_was_lost(true).await;
}

/// Others make the restored log as long as the lost one, so that no client can distinguish the two.
#[tokio::test(flavor = "multi_thread")]
async fn an_undetectable_restore_is_waited_out_when_an_operator_reports_it() {
    let mut cluster = Cluster::young().await;
    let known = cluster.connect().await;
    let off = Init::new().with_quarantine(false);
    known.init(&off).await.unwrap();
    cluster.save().await;
    let mut ahead = request("job");
    ahead.floor = FencingToken::new(SystemEnv.wall_micros() + 3_000_000).unwrap();
    let lost = known.try_acquire(&ahead).await.unwrap().granted().unwrap();
    drop(known);
    cluster.restore().await;
    cluster.used_by_others(200).await;
    let (operator, idle) = (cluster.connect().await, cluster.connect().await);
    assert!(!cluster.is_quarantined().await, "it was detected, so this test shows nothing");
    let reported = Init::new().with_restored(true);
    let both = reported.clone().with_first_use(true);
    assert_eq!(operator.init(&both).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    let settings = operator.init(&reported).await.unwrap();
    assert!(settings.grants_in + SECOND * 2 > LONGEST, "{settings:?}");
    let fresh = cluster.connect().await;
    for backend in [&idle, &fresh, &operator] {
        let held_back = held_back(&**backend, "job").await;
        assert!(held_back.why.contains("operator"), "{held_back:?}");
    }
    let client = LockClient::new(fresh);
    let next = client.lock("job").lease(LONGEST).wait(PATIENCE).acquire().await.unwrap();
    assert!(SystemEnv.now() >= lost.from + lost.lease, "the lost one may be believed in");
    assert!(next.token() > lost.token, "{} after {}", next.token(), lost.token);
}

/// Including leases that the settings in the snapshot do not show.
#[tokio::test(flavor = "multi_thread")]
async fn a_reported_restore_waits_out_the_longest_lease_that_may_be_held() {
    let mut cluster = Cluster::start(1).await;
    let backend = cluster.connect().await;
    let longest = |longest, restored| {
        let longest_lease = Some(longest);
        Init::new().with_restored(restored).with_longest_lease(longest_lease)
    };
    // Earlier locks go on.
    backend.init(&longest(SECOND, false)).await.unwrap();
    cluster.save().await;
    cluster.connect().await.init(&longest(LONGEST * 10, false)).await.unwrap();
    cluster.restore().await;
    let operator = cluster.connect().await;
    let settings = operator.init(&Init::new().with_restored(true)).await.unwrap();
    assert_eq!(settings.longest_lease, SECOND);
    assert!(settings.grants_in > SECOND && settings.grants_in <= LONGEST, "{settings:?}");
    let settings = operator.init(&longest(LONGEST * 10, true)).await.unwrap();
    assert!(settings.grants_in > LONGEST * 9, "{settings:?}");
    // A shorter quarantine does not replace it.
    let settings = operator.init(&longest(SECOND, true)).await.unwrap();
    assert!(settings.grants_in > LONGEST * 9, "{settings:?}");
}

/// With a pooled lease, the transaction that takes the lock is the first request over the new
/// connection to the restored cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_of_a_restored_cluster_is_released() {
    let mut cluster = Cluster::start(1).await;
    let longest_lease = Some(Duration::from_secs(60));
    let init = Init::new().with_first_use(true).with_longest_lease(longest_lease);
    let other = cluster.connect().await;
    other.init(&init).await.unwrap();
    let long = || {
        let mut request = request("job");
        request.lease = Duration::from_secs(60);
        request
    };
    let backend = cluster.with_a_pooled_lease(cluster.etcd.endpoints()[0], long).await;
    cluster.save().await;
    other.try_acquire(&long()).await.unwrap().granted().unwrap();
    cluster.restore().await;
    match attempt(&*backend, &long()).await {
        Attempt::Quarantined(held_back) => assert!(held_back.why.contains("restored")),
        granted => panic!("two holders: {granted:?}"),
    }
    assert_eq!(entries(&cluster.etcd).await, "");
}

/// The same behind a proxy that reconnects, and the release of the grant fails: the caller must
/// clean up.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_of_a_restored_cluster_whose_release_fails_has_an_unknown_outcome() {
    let mut cluster = Cluster::with_long_leases().await;
    let streams = Streams::reconnecting(cluster.etcd.endpoints()[0]).await.unwrap();
    // A call that broke would make the client connect anew, and so detect the restore before its
    // attempt. So nothing fills a pool in the background, and the proxy knows that the old server
    // is gone.
    let url = format!("etcd://{}?timeout=10s&spare_leases=0", streams.address());
    let backend = backend_etcd::connect(&url).await.unwrap();
    // Nor may the attempt find older settings than the client knows: the tokens are so far ahead of
    // the clock that the clock raises no offset after the snapshot.
    let mut ahead = request("ahead");
    ahead.floor = FencingToken::new(SystemEnv.wall_micros() + 100_000_000).unwrap();
    release(&*backend, &granted(&*backend, &ahead).await).await;
    cluster.save().await;
    // So that the client has observed later revisions than that of its grant.
    for name in ["one", "two", "three"] {
        release(&*backend, &granted(&*backend, &request(name)).await).await;
    }
    cluster.restore().await;
    streams.server_gone().await;
    streams.refuse("LeaseRevoke");
    let unknown = request("job");
    let error = backend.try_acquire(&unknown).await.expect_err("two holders, or a quarantine");
    assert!(streams.refused("LeaseRevoke") > 0, "the fault did not happen: {error}");
    assert_ne!(entries(&cluster.etcd).await, "", "nothing was granted");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "nobody cleans up: {error}");
    streams.serve("LeaseRevoke");
    backend.abandon(&unknown).await.unwrap();
    assert_eq!(entries(&cluster.etcd).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_and_waiters_in_the_snapshot_go_on() {
    let mut cluster = Cluster::start(1).await;
    let client = LockClient::new(cluster.connect().await);
    let guard = client.lock("job").lease(LONGEST).acquire().await.unwrap();
    let other = LockClient::new(cluster.connect().await);
    let waiting = tokio::spawn(other.lock("job").lease(LONGEST).wait(PATIENCE).acquire());
    queue_of(&**client.backend(), 1).await;
    cluster.save().await;
    // Something to be lost.
    client.lock("other").lease(LONGEST).acquire().await.unwrap().release().await.unwrap();
    cluster.restore().await;
    held_back(&*cluster.connect().await, "other").await;
    // It is renewed although nothing is granted.
    let before = guard.remaining();
    until("a renewal", async || {
        assert!(guard.is_valid());
        guard.remaining() > before
    })
    .await;
    assert!(cluster.is_quarantined().await);
    let token = guard.token();
    guard.release().await.unwrap();
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("it is served");
    assert!(next.unwrap().unwrap().token() > token);
}

/// Tokens may be ahead of the clock, and the settings that put them there may be lost.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_increase_over_a_restore_also_with_the_quarantine_off() {
    let mut cluster = Cluster::start(1).await;
    let backend = cluster.connect().await;
    // Far longer than a restore takes.
    let lease = LONGEST * 10;
    let longer = Init::new().with_longest_lease(lease).with_first_use(true);
    backend.init(&longer).await.unwrap();
    let settings = backend.init(&Init::new().with_quarantine(false)).await.unwrap();
    assert_eq!(settings.quarantine, Some(false));
    let promised = backend.guarantees();
    assert_eq!(promised.quarantine, QuarantineUse::Off);
    assert!(matches!(promised.exclusion, Promise::Withheld { .. }));
    cluster.save().await;
    let mut ahead = request("job");
    ahead.lease = lease;
    ahead.floor = FencingToken::new(SystemEnv.wall_micros() + 3_000_000).unwrap();
    let lost = backend.try_acquire(&ahead).await.unwrap().granted().unwrap();
    cluster.restore().await;
    // A quarantine would prevent this.
    let second = attempt(&*backend, &request("job")).await.granted().expect("a second holder");
    assert!(SystemEnv.now() < lost.from + lost.lease, "too slow to show two holders");
    assert!(second.token > lost.token, "{} after {}", second.token, lost.token);
    let fresh = cluster.connect().await;
    let third = attempt(&*fresh, &request("other")).await.granted().unwrap();
    assert!(third.token > lost.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_knew_settings_treat_their_loss_as_a_restore() {
    let cluster = Cluster::start(1).await;
    let backend = cluster.connect().await;
    let grant = backend.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    cluster.etcd.ctl(&["del", "leasehold/%leasehold/settings"]).await.unwrap();
    let held_back = held_back(&*backend, "other").await;
    assert!(held_back.why.contains("gone"), "{held_back:?}");
    assert_eq!(backend.guarantees().longest_lease, LONGEST);
    backend.release(&grant, ReleaseOptions::default()).await.unwrap();
    // An operator who knows that no lock is held opens the store at once.
    let open = Init::new().with_first_use(true);
    assert_eq!(backend.init(&open).await.unwrap().grants_in, Duration::ZERO);
    assert!(backend.try_acquire(&request("other")).await.unwrap().granted().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_elections_compactions_and_defragmentation_are_no_restore() {
    let mut cluster = Cluster::start(3).await;
    let clients = [cluster.connect().await, cluster.connect().await];
    let mut last = FencingToken::ZERO;
    for round in 0..4 {
        match round {
            0 => {
                let leader = cluster.etcd.leader().await.unwrap();
                cluster.etcd.member_mut(leader).process_mut().kill().unwrap();
                cluster.etcd.leader().await.unwrap();
                cluster.etcd.member_mut(leader).process_mut().start_again().unwrap();
            }
            1 => {
                for member in 0..3 {
                    cluster.etcd.member_mut(member).process_mut().kill().unwrap();
                }
                for member in 0..3 {
                    cluster.etcd.member_mut(member).process_mut().start_again().unwrap();
                }
            }
            2 => {
                let revision = cluster.revision().await.to_string();
                cluster.etcd.ctl(&["compact", &revision]).await.unwrap();
            }
            _ => drop(cluster.etcd.ctl(&["defrag"]).await.unwrap()),
        }
        cluster.etcd.wait_healthy().await.unwrap();
        let fresh = cluster.connect().await;
        for backend in [&clients[0], &clients[1], &fresh] {
            let request = request("job");
            let grant = attempt(&**backend, &request).await.granted().expect("no quarantine");
            assert!(grant.token > last);
            last = grant.token;
            backend.release(&grant, ReleaseOptions::default()).await.unwrap();
        }
        assert!(!cluster.is_quarantined().await);
    }
}

/// A write appears in the log and in the revision, but a member does not report both at the same
/// instant.
#[tokio::test(flavor = "multi_thread")]
async fn writes_while_the_cluster_is_observed_are_no_restore() {
    let cluster = Cluster::start(1).await;
    let writer = Client::connect([cluster.etcd.endpoints()[0].to_string()], None).await.unwrap();
    let mut writes = JoinSet::new();
    for key in 0..32 {
        let mut kv = writer.kv_client();
        writes.spawn(async move {
            loop {
                kv.put(format!("others/{key}"), "", None).await.unwrap();
            }
        });
    }
    for _ in 0..4 {
        let client = cluster.connect().await;
        let revision = cluster.revision().await;
        for _ in 0..100 {
            // Each call reads the settings again, and so observes the cluster.
            client.identity().await.unwrap();
        }
        assert!(cluster.revision().await > revision, "nothing was written meanwhile");
        assert!(!cluster.is_quarantined().await);
    }
}

/// The longest lease was lengthened after the snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_is_as_long_as_the_lost_settings_allowed() {
    let mut cluster = Cluster::start(1).await;
    let backend = cluster.connect().await;
    cluster.save().await;
    let longer = Init::new().with_longest_lease(LONGEST * 10).with_first_use(true);
    backend.init(&longer).await.unwrap();
    granted(&*backend, &request("job")).await;
    cluster.restore().await;
    // A request that grants nothing finds the old settings first.
    backend.inspect(&request("job").name).await.unwrap();
    let held_back = held_back(&*backend, "job").await;
    assert!(held_back.remaining > LONGEST * 5, "{held_back:?}");
}
