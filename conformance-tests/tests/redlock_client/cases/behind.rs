//! What is taken back behind an attempt or a release.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Mode, Proxy, Server as _};
use futures_util::future::join;
use lock_core::{Attempt, FencingToken, Grant, Outcome, Request};
use tokio::sync::oneshot;

use super::{
    LATE, LEASE, attempt, client, described, eventually, granted, granted_by_all, late,
    passed_over, proxied, settled, taken, three, warmed,
};
use crate::{
    acquire::watermark,
    batch::jobs::{self, Job},
    held::Held,
    quorum::Quorum,
    support::{Nodes, name, request},
};

/// Two nodes refuse, and the last of them is late: the third has given by then.
#[tokio::test]
async fn what_a_failed_attempt_was_given_is_taken_back() {
    let (nodes, quorum) = three().await;
    let asked = request("a", LEASE);
    taken(&nodes, &[0, 1], &asked.name).await;
    late(&nodes, 1).await;
    let answer = attempt(&quorum, &asked).await;
    assert!(matches!(answer, Attempt::Busy(_)), "{answer:?}");
    settled(&quorum).await;
    assert_eq!(nodes.keeping(&asked.name).await, 2, "the third still has it");
}

#[tokio::test]
async fn a_straggler_that_grants_after_all_is_taken_back() {
    let (nodes, quorum) = three().await;
    let asked = request("a", LEASE);
    taken(&nodes, &[0, 1], &asked.name).await;
    late(&nodes, 2).await;
    let answer = attempt(&quorum, &asked).await;
    assert!(matches!(answer, Attempt::Busy(_)), "{answer:?}");
    settled(&quorum).await;
    assert_eq!(nodes.keeping(&asked.name).await, 2, "the third still has it");
}

/// It is carried out, and nobody hears of it.
#[tokio::test]
async fn a_straggler_that_is_not_heard_is_taken_back() {
    let nodes = Nodes::start(3).await;
    let quick = described(&proxied(&nodes)).timeout(Duration::from_secs(1)).node_timeout(LATE);
    let quorum = client(quick).await;
    warmed(&nodes, &quorum).await;
    let asked = request("a", LEASE);
    taken(&nodes, &[0, 1], &asked.name).await;
    nodes.proxies[2].set(Mode::HalfCut).await.unwrap();
    let answer = attempt(&quorum, &asked).await;
    assert!(matches!(answer, Attempt::Busy(_)), "{answer:?}");
    settled(&quorum).await;
    assert!(nodes.proxies[2].counters().to_client.swallowed > 0, "no reply was lost");
    let mark = ["HGET", "leasehold-redlock:{0}:epoch", &watermark(&asked.name)];
    assert_ne!(nodes.servers[2].cli(&mark).await.unwrap(), "", "the third never gave it");
    assert_eq!(nodes.keeping(&asked.name).await, 2, "the third still has it");
}

#[tokio::test]
async fn what_a_failed_attempt_of_a_batch_was_given_is_taken_back() {
    let (nodes, quorum) = three().await;
    let asked = request("a", LEASE);
    taken(&nodes, &[0, 1], &asked.name).await;
    late(&nodes, 1).await;
    assert!(quorum.gather_attempt(&asked).await.unwrap().is_none());
    settled(&quorum).await;
    assert_eq!(nodes.keeping(&asked.name).await, 2, "the third still has it");
}

#[tokio::test]
async fn a_straggler_that_grants_to_a_batch_is_taken_back() {
    let (nodes, quorum) = three().await;
    let asked = request("a", LEASE);
    taken(&nodes, &[0, 1], &asked.name).await;
    late(&nodes, 2).await;
    assert!(quorum.gather_attempt(&asked).await.unwrap().is_none());
    settled(&quorum).await;
    assert_eq!(nodes.keeping(&asked.name).await, 2, "the third still has it");
}

/// One lock of the batch has failed by the first two; another waits for the third.
#[tokio::test]
async fn a_node_that_grants_what_has_failed_already_gives_it_back() {
    let (nodes, quorum) = three().await;
    let (failing, waiting) = (request("failing", LEASE), request("waiting", LEASE));
    taken(&nodes, &[0, 1], &failing.name).await;
    taken(&nodes, &[0], &waiting.name).await;
    late(&nodes, 2).await;
    let answers = join(quorum.gather_attempt(&failing), quorum.gather_attempt(&waiting)).await;
    assert!(answers.0.unwrap().is_none() && answers.1.unwrap().is_some());
    settled(&quorum).await;
    assert_eq!(nodes.keeping(&failing.name).await, 2, "the third still has it");
}

#[tokio::test]
async fn a_grant_for_which_nobody_is_there_is_taken_back() {
    let (nodes, quorum) = three().await;
    let gone = request("gone", LEASE);
    let (answer, caller) = oneshot::channel();
    drop(caller);
    quorum.carry_out(vec![Job::Attempt(jobs::Attempt { request: gone.clone(), answer })]).await;
    settled(&quorum).await;
    let mark = ["HGET", "leasehold-redlock:{0}:epoch", &watermark(&gone.name)];
    assert_ne!(nodes.servers[2].cli(&mark).await.unwrap(), "", "no node ever gave it");
    assert_eq!(nodes.keeping(&gone.name).await, 0, "nobody gives it back");
}

#[tokio::test]
async fn a_release_reaches_who_is_not_waited_for() {
    let (nodes, quorum) = three().await;
    let grant = granted_by_all(&nodes, &quorum, &request("a", LEASE)).await;
    passed_over(&quorum, 2);
    quorum.release(&grant, None, None).await.unwrap();
    settled(&quorum).await;
    assert_eq!(nodes.keeping(&grant.name).await, 0, "the third still has it");
}

/// A client whose third node never says whether it held what it is told to free, and which of them is late.
async fn not_understood(who_is_late: usize) -> (Nodes, Proxy, Arc<Quorum>, Grant) {
    let nodes = Nodes::start(3).await;
    let texts = [
        ("string.format('%.0f', now), 1}", "string.format('%.0f', now)}"),
        ("return {'freed', text(now), mine and 1 or 0}", "return {'freed', text(now)}"),
    ];
    let odd = Proxy::altering(nodes.servers[2].address(), &texts).await.unwrap();
    let mut addresses = proxied(&nodes);
    addresses[2] = odd.address();
    let quorum = client(described(&addresses)).await;
    let grant = granted_by_all(&nodes, &quorum, &request("a", LEASE)).await;
    let proxy = if who_is_late == 2 { &odd } else { &nodes.proxies[who_is_late] };
    proxy.set(Mode::Delay { to_server: LATE, to_client: Duration::ZERO }).await.unwrap();
    (nodes, odd, quorum, grant)
}

/// How often the third was told to free the lock: each time the whole script is sent, with both texts in it.
async fn told(odd: &Proxy, quorum: &Arc<Quorum>) -> u64 {
    settled(quorum).await;
    odd.counters().altered / 2
}

#[tokio::test]
async fn who_is_not_understood_is_asked_once_more_for_a_release() {
    let (_nodes, odd, quorum, grant) = not_understood(1).await;
    assert_eq!(quorum.release(&grant, None, None).await.unwrap().0, Outcome::Released);
    assert_eq!(told(&odd, &quorum).await, 2);
}

#[tokio::test]
async fn so_is_a_straggler_that_is_not_understood() {
    let (_nodes, odd, quorum, grant) = not_understood(2).await;
    assert_eq!(quorum.release(&grant, None, None).await.unwrap().0, Outcome::Released);
    assert_eq!(told(&odd, &quorum).await, 2);
}

#[tokio::test]
async fn who_is_not_understood_hears_twice_of_who_was_given_up() {
    let (_nodes, odd, quorum, _grant) = not_understood(1).await;
    quorum.abandon(&request("a", LEASE)).await.unwrap();
    assert_eq!(told(&odd, &quorum).await, 2);
}

#[tokio::test]
async fn so_does_a_straggler_that_is_not_understood() {
    let (_nodes, odd, quorum, _grant) = not_understood(2).await;
    quorum.abandon(&request("a", LEASE)).await.unwrap();
    assert_eq!(told(&odd, &quorum).await, 2);
}

async fn scripts(nodes: &Nodes, at: usize) -> u64 {
    let stats = nodes.servers[at].cli(&["INFO", "commandstats"]).await.unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.unwrap().split(',').next().unwrap().parse().unwrap()
}

/// How many scripts the third runs for a lock that it gives when that is on its way back already.
async fn asked_of_a_straggler(asked: Request) -> u64 {
    let (nodes, quorum) = three().await;
    let before = scripts(&nodes, 2).await;
    late(&nodes, 2).await;
    let grant = granted(&quorum, &asked).await;
    quorum.release(&grant, None, None).await.unwrap();
    settled(&quorum).await;
    assert_eq!(nodes.keeping(&asked.name).await, 0, "the third still has it");
    scripts(&nodes, 2).await - before
}

#[tokio::test]
async fn a_straggler_that_the_release_finds_is_asked_twice() {
    assert_eq!(asked_of_a_straggler(request("a", LEASE)).await, 2);
}

/// An attempt with a floor goes by itself, as one does that came to nothing in a batch.
#[tokio::test]
async fn it_is_asked_again_where_its_owner_may_have_asked_before() {
    let mut asked = request("a", LEASE);
    asked.floor = FencingToken::new(1).unwrap();
    assert_eq!(asked_of_a_straggler(asked).await, 3);
}

#[tokio::test]
async fn a_release_in_a_batch_reaches_who_is_not_waited_for() {
    let (nodes, quorum) = three().await;
    let grant = granted_by_all(&nodes, &quorum, &request("a", LEASE)).await;
    passed_over(&quorum, 2);
    quorum.gather_release(&grant, Held::of(&grant).unwrap(), None).await.unwrap();
    settled(&quorum).await;
    assert_eq!(nodes.keeping(&grant.name).await, 0, "the third still has it");
}

#[tokio::test]
async fn who_is_not_waited_for_hears_of_who_was_given_up() {
    let (nodes, quorum) = three().await;
    let asked = request("a", LEASE);
    granted_by_all(&nodes, &quorum, &asked).await;
    passed_over(&quorum, 2);
    quorum.abandon(&asked).await.unwrap();
    settled(&quorum).await;
    assert_eq!(nodes.keeping(&asked.name).await, 0, "the third still has it");
}

/// The third, where nobody knows what became of the attempt, hears of the release only when it is repeated.
#[tokio::test]
async fn a_release_that_is_repeated_behind_buries_what_may_yet_arrive() {
    let nodes = Nodes::start(3).await;
    let quick = described(&proxied(&nodes)).timeout(Duration::from_secs(1)).node_timeout(LATE);
    let quorum = client(quick).await;
    warmed(&nodes, &quorum).await;
    nodes.proxies[2].set(Mode::HalfCut).await.unwrap();
    let grant = granted(&quorum, &request("a", LEASE)).await;
    // Who hears of it only when the release has come would see to it.
    let ended = || async { quorum.peers[2].node.known_run_id().is_none().then_some(()) };
    eventually("the connection to be given up", ended).await;
    assert!(Held::of(&grant).unwrap().parts().nodes[2].doubtful);
    quorum.peers[2].trust();
    nodes.proxies[2].set(Mode::BlackHole).await.unwrap();
    quorum.release(&grant, None, None).await.unwrap();
    let given_up = || async { (!quorum.peers[2].is_trusted()).then_some(()) };
    eventually("the third to be given up", given_up).await;
    nodes.proxies[2].set(Mode::Pass).await.unwrap();
    let free = || async { (nodes.keeping(&grant.name).await == 0).then_some(()) };
    eventually("the third to be free", free).await;
    let tombstone = format!("leasehold-redlock:{{0}}:gone:{}", grant.owner);
    assert_eq!(nodes.servers[2].cli(&["EXISTS", &tombstone]).await.unwrap(), "1");
}

/// As of a program that starts a runtime for each of its jobs.
#[test]
fn a_probe_that_ends_with_its_runtime_leaves_nobody_suspected() {
    let quorum = Arc::new(super::unasked());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        quorum.suspect(0, "the case says so");
        tokio::task::yield_now().await;
    });
    assert!(!quorum.peers[0].is_trusted());
    drop(runtime);
    assert!(quorum.peers[0].is_trusted(), "nobody probes it, and nobody asks it any more");
}

/// The attempt is on its way to the third for ever so long.
#[tokio::test]
async fn a_release_buries_what_may_yet_arrive() {
    let nodes = Nodes::start(3).await;
    let quick = described(&proxied(&nodes)).node_timeout(LATE);
    let quorum = client(quick).await;
    warmed(&nodes, &quorum).await;
    nodes.proxies[2].set(Mode::Hold).await.unwrap();
    let grant = granted(&quorum, &request("a", LEASE)).await;
    let given_up = || async { (!quorum.peers[2].is_trusted()).then_some(()) };
    eventually("the third to be given up", given_up).await;
    quorum.release(&grant, None, None).await.unwrap();
    nodes.proxies[2].set(Mode::Pass).await.unwrap();
    settled(&quorum).await;
    let tombstone = format!("leasehold-redlock:{{0}}:gone:{}", grant.owner);
    assert_eq!(nodes.servers[2].cli(&["EXISTS", &tombstone]).await.unwrap(), "1");
}
