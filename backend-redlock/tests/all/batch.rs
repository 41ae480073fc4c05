//! Attempts and releases that share one script per node keep every promise that each keeps alone.

use std::time::Duration;

use futures_util::{future::join, poll};
use lock_core::{
    Backend, Enqueued, Env as _, Error, Grant, ReleaseOptions, ReleaseOutcome, Request, Signal,
    SystemEnv,
};
use servers::{Counters, Mode};

use crate::support::{
    LEASE, MANY, Nodes, PATIENT, SOON, UNANSWERED, attempts, busy, calls, enqueued, eventually,
    granted, grants, many_requests, releases, request, shared_cases,
};

/// How many records of a prefix all nodes keep together.
async fn kept(nodes: &Nodes, prefix: &str) -> usize {
    let mut sum = 0;
    for node in &nodes.servers {
        let keys = node.cli(&["KEYS", &format!("leasehold-redlock:*:lock:{prefix}*")]).await;
        sum += keys.unwrap().lines().filter(|line| !line.is_empty()).count();
    }
    sum
}

#[tokio::test]
async fn many_acquire_and_release_in_few_scripts() {
    let nodes = Nodes::start(3).await;
    let scripts = async || {
        let mut sum = 0;
        for node in &nodes.servers {
            sum += calls(node, "evalsha").await;
        }
        sum
    };
    let store = nodes.direct().await;
    shared_cases::many_acquire_and_release_in_few_scripts(&*store, scripts, 3 * 6).await;
}

#[tokio::test]
async fn a_release_in_a_batch_calls_the_waiter() {
    let nodes = Nodes::start(3).await;
    let (store, other) = (nodes.direct().await, nodes.direct().await);
    let held = grants(attempts(&*store, &many_requests("job", LEASE)).await);
    let next = request(held.last().unwrap().name.as_str(), LEASE);
    let (mut turn, _) = enqueued(&*other, &next).await;
    assert_eq!(releases(&*store, &held).await, [ReleaseOutcome::Released; MANY]);
    let signal = tokio::time::timeout(SOON, turn.next()).await.unwrap();
    assert!(matches!(signal, Signal::Recheck), "{signal:?}");
    let grant =
        eventually("the lock", || async { other.try_acquire(&next).await.unwrap().granted() })
            .await;
    assert!(grant.token > held.last().unwrap().token);
}

#[tokio::test]
async fn a_batch_goes_on_without_a_minority_and_leaves_nothing_there() {
    let nodes = Nodes::start(3).await;
    let store = nodes.proxied(PATIENT).await;
    let warm = grants(attempts(&*store, &many_requests("warm", LEASE)).await);
    releases(&*store, &warm).await;
    nodes.proxies[0].set(Mode::HalfCut).await.unwrap();
    let held = grants(attempts(&*store, &many_requests("job", LEASE)).await);
    assert_eq!(held.len(), MANY);
    assert_eq!(releases(&*store, &held).await, [ReleaseOutcome::Released; MANY]);
    let lost = |counters: &Counters| counters.to_client.swallowed > 0;
    nodes.proxies[0].until("a reply to be lost", SOON, lost).await.unwrap();
    nodes.proxies[0].set(Mode::Pass).await.unwrap();
    let start = SystemEnv.now();
    eventually("nothing to be left", || async { (kept(&nodes, "job").await == 0).then_some(()) })
        .await;
    assert!(SystemEnv.now() < start + LEASE / 2, "the leases ended it");
}

#[tokio::test]
async fn a_batch_whose_replies_are_lost_leaves_nothing() {
    let nodes = Nodes::start(3).await;
    let store = nodes.proxied(UNANSWERED).await;
    let warm = grants(attempts(&*store, &many_requests("warm", LEASE)).await);
    releases(&*store, &warm).await;
    for proxy in &nodes.proxies[..2] {
        proxy.set(Mode::HalfCut).await.unwrap();
    }
    let asked = many_requests("job", LEASE);
    for answer in attempts(&*store, &asked).await {
        assert!(answer.as_ref().is_err_and(Error::is_retryable), "{answer:?}");
    }
    assert!(nodes.proxies[0].counters().to_client.swallowed > 0, "no reply was lost");
    for proxy in &nodes.proxies[..2] {
        proxy.set(Mode::Pass).await.unwrap();
    }
    eventually("nothing to be left", || async { (kept(&nodes, "job").await == 0).then_some(()) })
        .await;
    assert!(SystemEnv.now() < asked[0].sent + LEASE, "the leases ended it");
}

/// A batch ends when its last attempt is certain. Earlier replies of a node also count for the
/// attempts that were certain before.
#[tokio::test]
async fn a_node_that_grants_what_has_failed_already_gives_it_back() {
    let nodes = Nodes::start(3).await;
    let store = nodes.proxied(PATIENT).await;
    let warm = grants(attempts(&*store, &many_requests("warm", LEASE)).await);
    releases(&*store, &warm).await;
    // The first two nodes refuse one lock. Another lock needs the third node, which is late.
    let record = format!("{:032x} 7 0 1 foreign", 1);
    for (server, name) in [(0, "failing"), (1, "failing"), (0, "waiting")] {
        let key = format!("leasehold-redlock:{{0}}:lock:{name}");
        nodes.servers[server].cli(&["SET", &key, &record, "PX", "60000"]).await.unwrap();
    }
    let late = Duration::from_millis(300);
    nodes.proxies[2].set(Mode::Delay { to_server: late, to_client: late }).await.unwrap();
    let start = SystemEnv.now();
    let [alone, failing, waiting] =
        ["alone", "failing", "waiting"].map(|name| request(name, LEASE));
    let mut first = store.try_acquire(&alone);
    assert!(poll!(&mut first).is_pending());
    // The caller has gone, and does not ask again.
    let mut given_up = store.try_acquire(&failing);
    assert!(poll!(&mut given_up).is_pending());
    drop(given_up);
    let (first, waiting) = join(first, store.try_acquire(&waiting)).await;
    assert!(first.unwrap().granted().is_some());
    assert!(waiting.unwrap().granted().is_some(), "the third node's vote did not count");
    // Two nodes keep the record that was there before.
    let left = || async { (nodes.keeping(&failing.name).await == 2).then_some(()) };
    eventually("the third to give it back", left).await;
    assert!(SystemEnv.now() < start + LEASE, "the lease ended it");
}

/// A release that carries the next attempt of its process.
async fn hand_on(
    store: &dyn Backend,
    grant: &Grant,
    next: &Request,
) -> Result<(ReleaseOutcome, Option<Grant>), Error> {
    let options = ReleaseOptions::new().with_next(next);
    let released = store.release(grant, options).await?;
    let next = match released.next {
        Some(Enqueued::Granted(grant)) => Some(grant),
        None => None,
        Some(other) => panic!("neither a grant nor nothing: {other:?}"),
    };
    Ok((released.outcome, next))
}

#[tokio::test]
async fn a_carried_attempt_takes_over_but_does_not_pass_another_processs_entry() {
    let nodes = Nodes::start(3).await;
    let (store, other) = (nodes.direct().await, nodes.direct().await);
    let first = granted(&*store, &request("a", LEASE)).await;
    let (outcome, second) = hand_on(&*store, &first, &request("a", LEASE)).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
    let second = second.expect("nobody else waits");
    assert!(second.token > first.token);
    let theirs = request("a", LEASE);
    let (mut turn, _) = enqueued(&*other, &theirs).await;
    let own = request("a", LEASE);
    let (outcome, third) = hand_on(&*store, &second, &own).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
    assert!(third.is_none(), "it barged: {third:?}");
    let signal = tokio::time::timeout(SOON, turn.next()).await.unwrap();
    assert!(matches!(signal, Signal::Recheck), "{signal:?}");
    let grant =
        eventually("the lock", || async { other.try_acquire(&theirs).await.unwrap().granted() })
            .await;
    assert!(grant.token > second.token);
    busy(&*store, &own).await;
}

#[tokio::test]
async fn a_carried_attempt_whose_reply_is_lost_leaves_nothing() {
    let nodes = Nodes::start(3).await;
    let store = nodes.proxied(UNANSWERED).await;
    // All scripts are known from here on.
    let warm = granted(&*store, &request("job", LEASE)).await;
    let (_, grant) = hand_on(&*store, &warm, &request("job", LEASE)).await.unwrap();
    let (grant, next) = (grant.unwrap(), request("job", LEASE));
    for proxy in &nodes.proxies[..2] {
        proxy.set(Mode::HalfCut).await.unwrap();
    }
    let error = hand_on(&*store, &grant, &next).await.expect_err("two replies are lost");
    assert!(error.is_retryable(), "{error:?}");
    assert!(nodes.proxies[0].counters().to_client.swallowed > 0, "no reply was lost");
    for proxy in &nodes.proxies[..2] {
        proxy.set(Mode::Pass).await.unwrap();
    }
    eventually("nothing to be left", || async { (kept(&nodes, "job").await == 0).then_some(()) })
        .await;
    assert!(SystemEnv.now() < next.sent + LEASE, "the leases ended it");
    let later = granted(&*nodes.direct().await, &request("job", LEASE)).await;
    assert!(later.token > grant.token);
}

/// The release has failed, but the attempt that it carried has not. The caller repeats both with
/// the same owner, while the clean-up of the first try is still on its way.
#[tokio::test]
async fn what_is_taken_back_of_a_carried_attempt_leaves_its_repeat_alone() {
    let nodes = Nodes::start(3).await;
    let (store, direct) = (nodes.proxied(PATIENT).await, nodes.direct().await);
    let warm = granted(&*store, &request("job", LEASE)).await;
    let (_, grant) = hand_on(&*store, &warm, &request("job", LEASE)).await.unwrap();
    let (grant, next) = (grant.unwrap(), request("job", LEASE));
    // One node frees the lock, one has forgotten it, and the third does not answer.
    nodes.servers[1].cli(&["DEL", "leasehold-redlock:{0}:lock:job"]).await.unwrap();
    let late = Duration::from_millis(300);
    for proxy in &nodes.proxies[..2] {
        proxy.set(Mode::Delay { to_server: late, to_client: Duration::ZERO }).await.unwrap();
    }
    nodes.proxies[2].set(Mode::HalfCut).await.unwrap();
    let error = hand_on(&*store, &grant, &next).await.expect_err("the nodes differ");
    assert!(error.is_ambiguous(), "{error:?}");
    let repeat = granted(&*direct, &next).await;
    let gone = format!("leasehold-redlock:{{0}}:gone:{}", next.owner);
    for server in &nodes.servers[..2] {
        eventually("the first try to be taken back", || async {
            (server.cli(&["EXISTS", &gone]).await.unwrap() == "1").then_some(())
        })
        .await;
    }
    assert_eq!(nodes.keeping(&next.name).await, 3);
    let released = direct.release(&repeat, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
}

#[tokio::test]
async fn a_batch_grants_leases_of_different_lengths() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    let lease = |number: usize| LEASE - Duration::from_secs(number as u64 % 4 * 3);
    let asked: Vec<_> =
        (0..MANY).map(|number| request(&format!("job {number}"), lease(number))).collect();
    let held = grants(attempts(&*store, &asked).await);
    assert_eq!(held.len(), MANY);
    for grant in &held {
        let state = store.inspect(&grant.name).await.unwrap().unwrap();
        let left = state.holder.unwrap().remaining;
        assert!(left <= grant.lease && left > grant.lease / 4, "{left:?} of {:?}", grant.lease);
    }
    assert_eq!(releases(&*store, &held).await, [ReleaseOutcome::Released; MANY]);
}

#[tokio::test]
async fn each_client_of_a_shared_store_keeps_its_label() {
    let nodes = Nodes::start(3).await;
    shared_cases::each_client_of_a_shared_store_keeps_its_label(&nodes.direct().await).await;
}
