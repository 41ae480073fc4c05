//! Locks that readers share, on nodes that do not all know the same readers.

use std::time::Duration;

use lock_core::{
    Env as _, FencingToken, Grant, LockClient, Mode, OwnerId, ReleaseOptions, ReleaseOutcome,
    Renewal, Request, SystemEnv,
};
use servers::Redis;

use crate::{
    quorum::watermark,
    support::{LEASE, Nodes, busy, enqueued, eventually, granted, name, renewed, request},
};

const LOCK: &str = "leasehold-redlock:{0}:lock:a";

fn reader() -> Request {
    request("a", LEASE).with_mode(Mode::Shared)
}

/// The end of a lease that is long after the tests.
const LATER: u64 = 9_000_000_000_000;

/// Makes these owners the readers on each node.
async fn shared_by(nodes: &Nodes, readers: [&[OwnerId]; 3]) {
    for (server, readers) in nodes.servers.iter().zip(readers) {
        let lines: String = readers.iter().map(|owner| format!("\n{owner} 7 1 {LATER}")).collect();
        let record = format!("{} 7 0 {} label{lines}", OwnerId::READERS, readers.len());
        server.cli(&["SET", LOCK, &record, "PX", "20000"]).await.unwrap();
    }
}

fn owners<const N: usize>() -> [OwnerId; N] {
    std::array::from_fn(|_| OwnerId::from_bits(SystemEnv.random()))
}

/// On how many nodes the record contains this text.
async fn with_text(nodes: &Nodes, text: &str) -> usize {
    let mut count = 0;
    for server in &nodes.servers {
        count += usize::from(server.cli(&["GET", LOCK]).await.unwrap().contains(text));
    }
    count
}

#[tokio::test]
async fn a_readers_number_is_made_one_and_the_next_writers_is_above_all() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    // As if grants of other clients had reached the nodes in different orders.
    for (server, ahead) in nodes.servers.iter().zip([10_000_000, 20_000_000, 5_000_000]) {
        let mark = (SystemEnv.wall_micros() + ahead).to_string();
        let epoch = "leasehold-redlock:{0}:epoch";
        server.cli(&["HSET", epoch, &watermark("a"), &mark, "top", &mark]).await.unwrap();
    }
    let one = granted(&*store, &reader()).await;
    let two = granted(&*store, &reader()).await;
    assert!(one.token <= two.token);
    for grant in [&one, &two] {
        let kept = with_text(&nodes, &format!("\n{} {} ", grant.owner, grant.token)).await;
        assert!(kept >= 2, "{kept} nodes have {}", grant.token);
    }
    for grant in [&one, &two] {
        store.release(grant, ReleaseOptions::default()).await.unwrap();
    }
    let writer = granted(&*store, &request("a", LEASE)).await;
    assert!(writer.token > one.token.max(two.token));
}

/// The third node accepts a reader, and the other two have a writer.
#[tokio::test]
async fn a_reader_that_fails_leaves_those_that_are_inside() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    let [other] = owners();
    shared_by(&nodes, [&[], &[], &[other]]).await;
    for server in &nodes.servers[..2] {
        let record = format!("{} 7 0 1 label", OwnerId::from_bits(1));
        server.cli(&["SET", LOCK, &record, "PX", "20000"]).await.unwrap();
    }
    let asked = reader();
    busy(&*store, &asked).await;
    let third = async || nodes.servers[2].cli(&["GET", LOCK]).await.unwrap();
    eventually("what it was given to be taken back", || async {
        let record = third().await;
        // The first line shows that it was there.
        let was_there = record.split(' ').nth(1) != Some("7");
        (was_there && !record.contains(&asked.owner.to_string())).then_some(())
    })
    .await;
    assert!(third().await.contains(&format!("\n{other} 7 1")));
}

#[tokio::test]
async fn readers_are_those_that_a_majority_has() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    let [one, two, three] = owners();
    shared_by(&nodes, [&[one, two], &[three, one], &[one, two, three]]).await;
    let state = store.inspect(&name("a")).await.unwrap().unwrap();
    assert_eq!((state.readers, state.holder.unwrap().owner), (Some(3), OwnerId::READERS));
    shared_by(&nodes, [&[one, two], &[one], &[three]]).await;
    assert_eq!(store.inspect(&name("a")).await.unwrap().unwrap().readers, Some(1));
    // No owner has the lock, although every node has a reader.
    shared_by(&nodes, [&[one], &[two], &[three]]).await;
    assert!(store.inspect(&name("a")).await.unwrap().is_none());
    assert!(store.list(None).await.unwrap().locks.is_empty());
    // Without readers such a record cannot be read.
    shared_by(&nodes, [&[], &[], &[]]).await;
    assert!(store.inspect(&name("a")).await.unwrap().unwrap().unreadable);
    busy(&*store, &reader()).await;
}

#[tokio::test]
async fn a_reader_is_lost_with_a_majority_and_the_others_stay() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    let (one, two) = (granted(&*store, &reader()).await, granted(&*store, &reader()).await);
    eventually("all nodes to know both", || async {
        (with_text(&nodes, &two.owner.to_string()).await == 3).then_some(())
    })
    .await;
    shared_by(&nodes, [&[two.owner], &[two.owner], &[one.owner, two.owner]]).await;
    let answers = store.renew(&[&one, &two], SystemEnv.now()).await;
    assert!(matches!(answers[..], [Renewal::Lost(_), Renewal::Renewed { .. }]), "{answers:?}");
    let released = store.release(&two, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
}

/// The writer sends no more heartbeats, and nothing removes its entry.
#[tokio::test]
async fn a_writer_that_died_while_it_waited_delays_readers_for_as_long_as_promised() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    let inside = granted(&*store, &reader()).await;
    let (dead, _) = enqueued(&*store, &request("a", LEASE)).await;
    drop(dead);
    busy(&*store, &reader()).await;
    let promised = store.guarantees();
    let limit = promised.dead_waiter_delay + promised.longest_poll + Duration::from_secs(10);
    assert!(limit < LEASE, "the reader inside would have gone");
    let client = LockClient::new(nodes.direct().await);
    let guard = client.lock(&inside.name).shared().wait(limit).acquire().await.unwrap();
    guard.release().await.unwrap();
    renewed(&*store, &[&inside]).await;
}

/// How often a node has run this command, also within scripts.
async fn calls(server: &Redis, command: &str) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]).await.unwrap();
    let line = format!("cmdstat_{command}:calls=");
    let calls = stats.lines().find_map(|it| it.strip_prefix(&line));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

/// The record has a line of each reader. A script that read it for each of them would hold up the
/// node for longer than its clients wait.
#[tokio::test]
async fn a_batch_of_readers_reads_their_record_once() {
    const MANY: usize = 200;
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    let all = owners::<MANY>();
    shared_by(&nodes, [&all; 3]).await;
    let grants = all.map(|owner| {
        let mut reader = reader();
        reader.owner = owner;
        Grant::new(&reader, FencingToken::new(7).unwrap())
    });
    for server in &nodes.servers {
        server.cli(&["CONFIG", "RESETSTAT"]).await.unwrap();
    }
    let answers = store.renew(&grants.each_ref(), SystemEnv.now()).await;
    let renewed = |answer: &Renewal| matches!(answer, Renewal::Renewed { .. });
    assert!(answers.iter().all(renewed), "{answers:?}");
    for server in &nodes.servers {
        assert_eq!(calls(server, "get").await, 1, "the record was read again and again");
    }
}
