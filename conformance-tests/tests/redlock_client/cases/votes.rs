//! Whose vote counts.

use std::{sync::Arc, time::Duration};

use backend_redis::node::{Settings, Value};
use conformance_tests::kit::{Clock, Redis, RedisOptions, Server as _};
use lock_core::{Env as _, ErrorKind, FencingToken, Renewal, SystemEnv};

use super::{
    BOUND, LEASE, client, described, forgotten, granted_by_all, proxied, taken, three, unasked,
    warmed,
};
use crate::{
    acquire::Try,
    ballot::Ballot,
    peer::{Peer, micros},
    quorum::Quorum,
    support::{Nodes, first_use, name, request},
    vote::{Tally, Vote, tally},
};

const SECOND: u64 = 1_000_000;

fn text(text: impl ToString) -> Value {
    Value::BulkString(text.to_string().into_bytes())
}

/// An answer to an attempt, by a clock that is so far ahead of this process's.
fn said(word: &str, stamp: u64) -> Value {
    let rest = match word {
        "ours" => vec![text(7), Value::Int(0)],
        _ => ["00000000000000000000000000000001", "foreign", "900", "7", "-1"].map(text).into(),
    };
    Value::Array([text(word), text(stamp)].into_iter().chain(rest).collect())
}

/// The first refuses; the other two give, and the last of them has a clock that is ahead.
fn counted(quorum: &Quorum, ahead: u64) -> Tally {
    let mut ballot = Ballot::new(&quorum.peers, BOUND, &[0, 1, 2]);
    for (at, word) in ["busy", "ours", "ours"].into_iter().enumerate() {
        let peer = &quorum.peers[at];
        let before = peer.before();
        let stamp = micros(SystemEnv.now()) + if at == 2 { ahead } else { 0 };
        ballot.hear(at, peer.after(before, said(word, stamp)));
    }
    tally(&ballot.votes())
}

#[tokio::test]
async fn a_vote_by_a_clock_that_is_off_does_not_count() {
    assert_eq!(counted(&unasked(), 0), Tally::Won);
    assert_eq!(counted(&unasked(), 10 * SECOND), Tally::Failed);
}

#[tokio::test]
async fn one_server_has_one_vote() {
    let quorum = unasked();
    quorum.peers[2].set_twin(Some("another".to_owned()));
    assert_eq!(counted(&quorum, 0), Tally::Failed);
}

#[tokio::test]
async fn a_clock_that_went_back_says_nothing() {
    let quorum = unasked();
    let peer = &quorum.peers[0];
    let hear = |stamp| peer.after(peer.before(), said("ours", stamp)).unwrap();
    let now = micros(SystemEnv.now());
    assert!(hear(now + SECOND).span.is_some());
    assert!(hear(now).span.is_none());
    assert!(hear(now).span.is_some(), "it goes on from there");
}

/// As [`counted`], in a batch and on real nodes.
#[tokio::test]
async fn one_server_has_one_vote_in_a_batch() {
    let (nodes, quorum) = three().await;
    taken(&nodes, &[0], &name("a")).await;
    quorum.peers[2].set_twin(Some("another".to_owned()));
    assert!(quorum.gather_attempt(&request("a", LEASE)).await.unwrap().is_none());
}

/// Nodes of which the second has a clock of its own.
async fn clocked() -> (Nodes, Clock, Arc<Quorum>) {
    let clock = Clock::new().await.unwrap();
    let mut options = vec![RedisOptions::new(); 3];
    options[1] = options[1].clone().clock(&clock);
    let nodes = Nodes::bare(options).await;
    first_use(&*nodes.direct().await).await;
    let quorum = client(described(&proxied(&nodes))).await;
    warmed(&nodes, &quorum).await;
    (nodes, clock, quorum)
}

/// So far that it has no vote, and not so far that the node itself takes the call for a ghost.
const OFF: f64 = 4.0;

#[tokio::test]
async fn a_vote_by_a_clock_that_is_off_does_not_count_in_a_batch() {
    let (nodes, clock, quorum) = clocked().await;
    taken(&nodes, &[0], &name("a")).await;
    clock.step(OFF).unwrap();
    // The next is near both clocks, so that they agree on a number.
    quorum.propose(quorum.clock().unwrap() + 29 * SECOND / 10);
    assert!(quorum.gather_attempt(&request("a", LEASE)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_renewal_by_a_clock_that_is_off_does_not_count() {
    let (nodes, clock, quorum) = clocked().await;
    let asked = request("a", LEASE);
    let grant = granted_by_all(&nodes, &quorum, &asked).await;
    forgotten(&nodes, &[0], &asked.name).await;
    clock.step(OFF).unwrap();
    let answer = quorum.renew_batch(&[&grant], SystemEnv.now()).await.remove(0);
    assert!(matches!(answer, Renewal::Unknown(_)), "{answer:?}");
}

#[tokio::test]
async fn two_addresses_of_one_server_are_refused() {
    let servers = Redis::start_many(2, RedisOptions::new()).await.unwrap();
    let [one, two] = [servers[0].address(), servers[1].address()];
    let url = format!("redlock://{one},localhost:{},{two}", one.port());
    let error = crate::connect(&url).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[test]
fn one_address_twice_is_refused() {
    let addresses = [1, 2, 1].map(|port| ([127, 0, 0, 1], port).into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(async { described(&addresses).quorum().map(drop).unwrap_err() });
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[tokio::test]
async fn nodes_with_different_settings_are_refused() {
    let quorum = unasked();
    let own = quorum.settings().unwrap();
    quorum.peers[1].node.believe(Settings { longest_lease: own.longest_lease * 2, ..own });
    assert_eq!(quorum.settings().unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_holder_believes_for_twice_the_bound_less() {
    let quorum = unasked();
    let (asked, sent) = (request("a", LEASE), SystemEnv.now());
    let own = Try { request: &asked, number: 1, sent, limit: BOUND, placed: false, first: true };
    let votes = [Vote::Ours(7), Vote::Ours(7), Vote::No];
    let token = FencingToken::new(7).unwrap();
    let (_, grant) = quorum.made(&own, &votes, |_| false, |_| true, token);
    assert_eq!(grant.margin, 2 * BOUND);
}
