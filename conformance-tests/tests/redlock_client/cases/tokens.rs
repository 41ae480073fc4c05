//! A token is a number that a majority has.

use conformance_tests::kit::{Proxy, Server as _};

use super::{LEASE, client, described, granted, late, lock, note, set, three, unasked};
use crate::{
    acquire::watermark,
    support::{Nodes, request},
};

/// Numbers of the nodes' clocks, and as if others' grants had reached the nodes in different orders.
async fn with_different_marks(nodes: &Nodes, mark: &str) {
    let now: u64 = {
        let time = nodes.servers[0].cli(&["TIME"]).await.unwrap();
        time.lines().next().unwrap().trim().parse::<u64>().unwrap() * 1_000_000
    };
    for (at, ahead) in [10, 20, 30].into_iter().enumerate() {
        note(nodes, at, mark, now + ahead * 1_000_000).await;
        note(nodes, at, "top", now + ahead * 1_000_000).await;
    }
}

#[tokio::test]
async fn different_numbers_are_made_one_before_the_grant() {
    let (nodes, quorum) = three().await;
    let asked = request("a", LEASE);
    with_different_marks(&nodes, &watermark(&asked.name)).await;
    let grant = granted(&quorum, &asked).await;
    let mut having = 0;
    for server in &nodes.servers {
        let record = server.cli(&["GET", &lock(&asked.name)]).await.unwrap();
        having += usize::from(record.contains(&format!(" {} ", grant.token)));
    }
    assert!(having >= 2, "{having} nodes have {}", grant.token);
}

/// The nodes say that the lock is not the asker's any more.
#[tokio::test]
async fn a_number_that_is_not_taken_is_no_token() {
    let nodes = Nodes::start(3).await;
    let mut proxies = Vec::new();
    for server in &nodes.servers {
        let texts = [("if owner ~= ARGV[1] or state ~= '0' then", "if true then")];
        proxies.push(Proxy::altering(server.address(), &texts).await.unwrap());
    }
    let addresses: Vec<_> = proxies.iter().map(Proxy::address).collect();
    let quorum = client(described(&addresses)).await;
    let asked = request("a", LEASE);
    with_different_marks(&nodes, &watermark(&asked.name)).await;
    let answer = quorum.attempt(&asked, None).await;
    assert!(proxies.iter().any(|proxy| proxy.counters().altered > 0), "nothing was written");
    assert!(!matches!(answer, Ok(lock_core::Attempt::Granted(_))), "{answer:?}");
}

#[tokio::test]
async fn a_repeat_finds_the_token_that_was_agreed_on() {
    let (nodes, quorum) = three().await;
    let asked = request("a", LEASE);
    for (at, number) in [900, 800, 800].into_iter().enumerate() {
        set(&nodes, at, &asked.name, asked.owner, number).await;
    }
    late(&nodes, 2).await;
    assert_eq!(granted(&quorum, &asked).await.token.get(), 800);
}

#[tokio::test]
async fn no_number_is_proposed_twice() {
    let quorum = unasked();
    assert!(quorum.propose(5) < quorum.propose(5));
    assert_eq!(quorum.propose(100), 100);
}
