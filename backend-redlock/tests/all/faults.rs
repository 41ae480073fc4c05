//! Faults on real servers. Each test asserts that its fault happened.

use std::time::Duration;

use lock_core::{
    Attempt, Backend, Env as _, ErrorKind, Grant, Init, LockClient, ReleaseOptions, ReleaseOutcome,
    Renewal, Request, SystemEnv, drift_margin,
};
use servers::{Clock, Data, Mode, RedisOptions, Server as _};

use crate::support::{
    LEASE, Nodes, PATIENT, SHORT, SOON, busy, connect, eventually, first_use, granted, name,
    renewed, request,
};

#[tokio::test]
async fn a_minority_killed_changes_nothing() {
    let mut nodes = Nodes::start(5).await;
    let (store, other) = (nodes.direct().await, nodes.direct().await);
    let grant = granted(&*store, &request("a", LEASE)).await;
    for server in &mut nodes.servers[..2] {
        server.kill().unwrap();
        assert!(server.cli(&["PING"]).await.is_err(), "it was not killed");
    }
    renewed(&*store, &[&grant]).await;
    let refused = busy(&*other, &request("a", LEASE)).await;
    assert_eq!(refused.holder.unwrap().owner, grant.owner);
    let released = store.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    let next = granted(&*other, &request("a", LEASE)).await;
    assert!(next.token > grant.token);
    // A new client needs no more than a majority either.
    let newcomer = nodes.direct().await;
    assert_eq!(busy(&*newcomer, &request("a", LEASE)).await.token, next.token);
}

/// A grant, with calls that a busy machine may make too slow to count.
async fn granted_soon(store: &dyn Backend, asked: &Request) -> Grant {
    let grant = || async { store.try_acquire(asked).await.ok()?.granted() };
    eventually("a grant", grant).await
}

#[tokio::test]
async fn a_majority_down_is_reported_and_the_same_client_recovers() {
    let mut nodes = Nodes::bare(vec![RedisOptions::new(); 3]).await;
    let store = connect(&nodes.url(SHORT)).await;
    let short = Init::new().with_first_use(true).with_longest_lease(Duration::from_secs(4));
    store.init(&short).await.unwrap();
    let lease = Duration::from_secs(2);
    let client = LockClient::new(store.clone());
    let first = granted_soon(&*store, &request("a", lease)).await;
    for server in &mut nodes.servers[..2] {
        server.kill().unwrap();
    }
    let told = eventually("the reason", || async {
        let error = store.try_acquire(&request("b", lease)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let told = error.to_string();
        told.contains("1 of 3 nodes could vote, and 2 are needed").then_some(told)
    })
    .await;
    assert!(told.contains(&nodes.servers[1].address().to_string()), "{told}");
    let waiting = tokio::spawn(client.lock(name("a")).lease(lease).wait(SOON).acquire());
    for server in &mut nodes.servers[..2] {
        server.restart(Data::Lose).await.unwrap();
    }
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token() > first.token, "{} after {}", guard.token(), first.token);
}

#[tokio::test]
async fn a_paused_minority_is_waited_for_once() {
    const LONG: &str = "timeout=30s&node_timeout=6s&clock_bound=2s";
    let node_timeout = Duration::from_secs(6);
    let nodes = Nodes::start(5).await;
    let (store, other) = (connect(&nodes.url(LONG)).await, nodes.direct().await);
    for server in &nodes.servers[..2] {
        server.pause().unwrap();
    }
    // A majority is certain without them, and the client notices them.
    let grant = granted(&*store, &request("first", LEASE)).await;
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
    tokio::time::sleep(node_timeout + Duration::from_secs(1)).await;
    // One of the three other nodes refuses. If the call waited for the paused nodes, it would take
    // 6 s.
    let key = "leasehold-redlock:{0}:lock:split";
    let record = format!("{:032x} 7 0 1 foreign", 1);
    nodes.servers[4].cli(&["SET", key, &record, "PX", "20000"]).await.unwrap();
    let start = SystemEnv.now();
    let answer = store.try_acquire(&request("split", LEASE)).await;
    let took = SystemEnv.now().since(start);
    assert!(!matches!(answer, Ok(Attempt::Granted(_))), "{answer:?}");
    assert!(took < node_timeout, "{took:?}: a node known to hang was waited for");
    for server in &nodes.servers[..2] {
        server.resume().unwrap();
    }
    // They answer a probe, and calls use them again.
    eventually("all nodes to be asked again", || async {
        let grant = granted(&*store, &request("again", LEASE)).await;
        let all = nodes.keeping(&grant.name).await == 5;
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
        all.then_some(())
    })
    .await;
    // Requests that they got while they were paused have taken nothing.
    eventually("late requests to be gone", || async {
        (nodes.keeping(&name("first")).await == 0).then_some(())
    })
    .await;
    granted(&*other, &request("first", LEASE)).await;
}

/// The classic case: the holder has a bare majority, and one of its nodes restarts without data.
/// This node and the third would be a majority for the next client.
#[tokio::test]
async fn a_minority_restarted_empty_admits_no_second_holder() {
    let mut nodes = Nodes::start(3).await;
    nodes.proxies[2].set(Mode::Cut).await.unwrap();
    let holder = nodes.proxied(PATIENT).await;
    let grant = granted(&*holder, &request("a", LEASE)).await;
    assert_eq!(nodes.keeping(&grant.name).await, 2, "the holder has a bare majority");
    let before = nodes.servers[1].info("run_id").await.unwrap();
    nodes.servers[1].restart(Data::Lose).await.unwrap();
    assert_ne!(nodes.servers[1].info("run_id").await.unwrap(), before);
    let next = nodes.direct().await;
    let answer = next.try_acquire(&request("a", LEASE)).await;
    let believed = grant.lease - grant.margin - drift_margin(grant.lease);
    assert!(SystemEnv.now() < grant.from + believed, "too slow to show anything");
    assert!(matches!(answer, Ok(Attempt::Busy(_) | Attempt::Quarantined(_))), "{answer:?}");
}

/// The holder has a bare majority, and a node of it forgets. So a renewal finds a majority without
/// the grant. The validity that the holder knows still counts: until its end no other client gets
/// the lock, and after it the rest is released.
#[tokio::test]
async fn a_grant_that_a_majority_has_lost_admits_no_second_holder_before_its_validity_ends() {
    let lease = Duration::from_secs(6);
    let mut nodes = Nodes::start(3).await;
    nodes.proxies[2].set(Mode::Cut).await.unwrap();
    let holder = nodes.proxied(SHORT).await;
    let asked = request("a", lease);
    let grant = granted_soon(&*holder, &asked).await;
    assert_eq!(nodes.keeping(&grant.name).await, 2, "the holder has a bare majority");
    let before = nodes.servers[1].info("run_id").await.unwrap();
    nodes.servers[1].restart(Data::Lose).await.unwrap();
    assert_ne!(nodes.servers[1].info("run_id").await.unwrap(), before);
    nodes.proxies[2].set(Mode::Pass).await.unwrap();
    eventually("a renewal to tell of the loss", || async {
        let answer = holder.renew(&[&grant], SystemEnv.now()).await.pop();
        assert!(!matches!(answer, Some(Renewal::Renewed { .. })), "{answer:?}");
        matches!(answer, Some(Renewal::Lost(_))).then_some(())
    })
    .await;
    // The core does this if an attempt may still arrive.
    holder.abandon(&asked).await.unwrap();
    let believed = grant.from + (grant.lease - grant.margin - drift_margin(grant.lease));
    let next = connect(&nodes.url(SHORT)).await;
    let waiting = request("a", lease);
    let second = eventually("the lease to end", || async {
        let answer = next.try_acquire(&waiting).await.ok()?;
        let early = SystemEnv.now() < believed;
        assert!(!early || !matches!(answer, Attempt::Granted(_)), "two hold it");
        answer.granted()
    })
    .await;
    assert!(second.token > grant.token);
}

/// A holder with a bare majority of three that does not renew; its second node has a clock of its
/// own. And a client that reaches all three nodes.
struct Clocked {
    nodes: Nodes,
    clock: Clock,
    grant: lock_core::Grant,
    next: std::sync::Arc<dyn Backend>,
}

async fn clocked(lease: Duration, options: &str) -> Clocked {
    let clock = Clock::new().await.unwrap();
    let mut servers = vec![RedisOptions::new(); 3];
    servers[1] = servers[1].clone().clock(&clock);
    let nodes = Nodes::bare(servers).await;
    let next = connect(&nodes.url(options)).await;
    first_use(&*next).await;
    nodes.proxies[2].set(Mode::Cut).await.unwrap();
    let holder = nodes.proxied(options).await;
    let grant = granted_soon(&*holder, &request("a", lease)).await;
    assert_eq!(nodes.keeping(&grant.name).await, 2, "the holder has a bare majority");
    Clocked { nodes, clock, grant, next }
}

#[tokio::test]
async fn a_clock_that_jumps_past_the_lease_admits_no_second_holder() {
    for step in [3600.0, 25.0] {
        let Clocked { nodes, clock, grant, next } = clocked(LEASE, PATIENT).await;
        clock.step(step).unwrap();
        eventually("the jumped node to forget", || async {
            (nodes.keeping(&grant.name).await == 1).then_some(())
        })
        .await;
        let answer = next.try_acquire(&request("a", LEASE)).await;
        assert!(!matches!(answer, Ok(Attempt::Granted(_))), "{answer:?}");
        let told = next.try_acquire(&request("b", LEASE)).await.unwrap();
        assert!(matches!(told, Attempt::Granted(_)), "two nodes in line are a majority: {told:?}");
        let believed = grant.lease - grant.margin - drift_margin(grant.lease);
        assert!(SystemEnv.now() < grant.from + believed, "too slow to show anything");
    }
}

#[tokio::test]
async fn a_node_whose_clock_was_ahead_and_came_back_is_in_quarantine() {
    let Clocked { nodes, clock, grant, next } = clocked(LEASE, PATIENT).await;
    clock.step(3600.0).unwrap();
    eventually("the jumped node to forget", || async {
        (nodes.keeping(&grant.name).await == 1).then_some(())
    })
    .await;
    // Any client's call makes the node store its clock.
    let answer = next.try_acquire(&request("other", LEASE)).await;
    assert!(matches!(answer, Ok(Attempt::Granted(_))), "{answer:?}");
    const EPOCH: &str = "leasehold-redlock:{0}:epoch";
    eventually("the node to have been called", || async {
        let seen = nodes.servers[1].cli(&["HGET", EPOCH, "clock"]).await.unwrap();
        let ahead = seen.parse::<u64>().unwrap() > grant.token.get() + 3_000_000_000;
        ahead.then_some(())
    })
    .await;
    clock.step(-3600.0).unwrap();
    let answer = next.try_acquire(&request("a", LEASE)).await;
    assert!(matches!(answer, Ok(Attempt::Busy(_) | Attempt::Quarantined(_))), "{answer:?}");
    let told = nodes.servers[1].cli(&["HGET", EPOCH, "why"]).await.unwrap();
    assert!(told.contains("came back"), "{told}");
    let believed = grant.lease - grant.margin - drift_margin(grant.lease);
    assert!(SystemEnv.now() < grant.from + believed, "too slow to show anything");
}

#[tokio::test]
async fn a_clock_that_jumps_within_the_bound_is_covered_by_the_margin() {
    let lease = Duration::from_secs(4);
    let Clocked { nodes, clock, grant, next } = clocked(lease, SHORT).await;
    clock.step(0.35).unwrap();
    let asked = request("a", lease);
    let second =
        eventually("the lease to end", || async { next.try_acquire(&asked).await.ok()?.granted() })
            .await;
    let believed = grant.lease - grant.margin - drift_margin(grant.lease);
    let after = second.from.max(grant.from + believed);
    assert!(SystemEnv.now() > after && second.token > grant.token);
    // The node with the early clock counted. So without the margin the lock could have ended too
    // early.
    let kept = nodes.servers[1].cli(&["EXISTS", "leasehold-redlock:{0}:lock:a"]).await.unwrap();
    assert_eq!(kept, "1");
}

#[tokio::test]
async fn a_clock_that_goes_back_has_no_vote() {
    let Clocked { nodes, clock, grant: _, next } = clocked(LEASE, PATIENT).await;
    nodes.servers[2].pause().unwrap();
    clock.step(-3600.0).unwrap();
    let error = next.try_acquire(&request("b", LEASE)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("clock"), "{error}");
    nodes.servers[2].resume().unwrap();
    eventually("the third node to be back", || async {
        next.try_acquire(&request("b", LEASE)).await.ok()?.granted()
    })
    .await;
}

/// A busy machine may miss these limits, so calls that must succeed are repeated.
const SHORT_CALLS: &str = "timeout=1s&node_timeout=300ms&clock_bound=400ms";

#[tokio::test]
async fn lost_replies_change_nothing_but_what_was_asked() {
    let nodes = Nodes::start(3).await;
    let direct = nodes.direct().await;
    let store = eventually("a client", || async {
        backend_redlock::connect(&nodes.proxied_url(SHORT_CALLS)).await.ok()
    })
    .await;
    let lose = async |mode| {
        for proxy in &nodes.proxies[..2] {
            proxy.set(mode).await.unwrap();
        }
    };
    let swallowed = || nodes.proxies[0].counters().to_client.swallowed;
    // From here on the nodes know the scripts.
    let warm = granted(&*direct, &request("warm", LEASE)).await;
    renewed(&*direct, &[&warm]).await;
    direct.release(&warm, ReleaseOptions::default()).await.unwrap();

    // Acquire: the nodes may have given the lock. Nothing is left of it long before the lease ends.
    let asked = request("a", LEASE);
    lose(Mode::HalfCut).await;
    let error = store.try_acquire(&asked).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(swallowed() > 0, "no reply was lost");
    eventually("the clean-up", || async { (nodes.keeping(&asked.name).await == 0).then_some(()) })
        .await;
    assert!(SystemEnv.now() < asked.sent + LEASE, "the lease ended it");
    lose(Mode::Pass).await;
    let grant = eventually("the client to recover", || async {
        store.try_acquire(&request("a", LEASE)).await.ok()?.granted()
    })
    .await;

    // Renew: unknown, not lost.
    let before = swallowed();
    lose(Mode::HalfCut).await;
    let answer = store.renew(&[&grant], SystemEnv.now()).await.pop();
    assert!(matches!(answer, Some(Renewal::Unknown(_))), "{answer:?}");
    assert!(swallowed() > before);
    lose(Mode::Pass).await;
    eventually("a renewal", || async {
        let answer = store.renew(&[&grant], SystemEnv.now()).await.pop();
        match answer {
            Some(Renewal::Renewed { .. }) => Some(()),
            Some(Renewal::Unknown(_)) => None,
            other => panic!("{other:?}"),
        }
    })
    .await;

    // Release: done although no answer arrived, and a repeat is harmless.
    let before = swallowed();
    lose(Mode::HalfCut).await;
    let error = store.release(&grant, ReleaseOptions::default()).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(swallowed() > before);
    let next = eventually("the release", || async {
        direct.try_acquire(&request("a", LEASE)).await.unwrap().granted()
    })
    .await;
    lose(Mode::Pass).await;
    eventually("the client to recover", || async {
        let released = store.release(&grant, ReleaseOptions::default()).await.ok()?;
        assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
        Some(())
    })
    .await;
    renewed(&*direct, &[&next]).await;
}

#[tokio::test]
async fn replies_lost_on_a_minority_are_not_missed_and_leave_nothing() {
    let nodes = Nodes::start(3).await;
    let store = nodes.proxied(PATIENT).await;
    nodes.proxies[0].set(Mode::HalfCut).await.unwrap();
    let grant = granted(&*store, &request("a", LEASE)).await;
    renewed(&*store, &[&grant]).await;
    let released = store.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    assert!(nodes.proxies[0].counters().to_client.swallowed > 0, "no reply was lost");
    nodes.proxies[0].set(Mode::Pass).await.unwrap();
    eventually("the rest", || async { (nodes.keeping(&grant.name).await == 0).then_some(()) })
        .await;
    assert!(SystemEnv.now() < grant.from + LEASE, "the lease ended it");
}
