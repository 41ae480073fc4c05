//! Whose vote counts.

use backend_redis::node::{NodeSettings, Value};
use lock_core::{Backend as _, Env as _, ErrorKind, FencingToken, Renewal, SystemEnv};
use servers::{Clock, RedisOptions};

use super::{
    BOUND, LEASE, client, described, forgotten, gathered, granted_by_all, proxied,
    support::{Nodes, first_use, name, request},
    taken, three, unasked, warmed,
};
use crate::{
    backend::Redlock,
    protocol::vote::{Tally, Vote, tally},
    quorum::{node::micros, nodes::Quorum},
    steps::{
        acquire::{Try, make_grant},
        vote_record::VoteRecord,
    },
};

const SECOND: u64 = 1_000_000;

fn text(text: impl ToString) -> Value {
    Value::BulkString(text.to_string().into_bytes())
}

/// An answer to an attempt, with a clock that is this far ahead of this process's clock.
fn said(word: &str, stamp: u64) -> Value {
    let rest = match word {
        "ours" => vec![text(7), Value::Int(0)],
        _ => ["00000000000000000000000000000001", "foreign", "900", "7", "-1"].map(text).into(),
    };
    Value::Array([text(word), text(stamp)].into_iter().chain(rest).collect())
}

/// The first node refuses. The other two give, and the last of them has a clock that is ahead.
fn counted(quorum: &Quorum, ahead: u64) -> Tally {
    let mut record = VoteRecord::new(&quorum.nodes, BOUND, &[0, 1, 2]);
    for (at, word) in ["busy", "ours", "ours"].into_iter().enumerate() {
        let node = &quorum.nodes[at];
        let start = node.start_call();
        let stamp = micros(SystemEnv.now()) + if at == 2 { ahead } else { 0 };
        record.add(at, node.end_call(start, said(word, stamp)));
    }
    tally(&record.votes())
}

#[tokio::test]
async fn a_vote_by_a_clock_that_is_off_does_not_count() {
    assert_eq!(counted(&unasked(), 0), Tally::Won);
    assert_eq!(counted(&unasked(), 10 * SECOND), Tally::Failed);
}

#[tokio::test]
async fn one_server_has_one_vote() {
    let quorum = unasked();
    quorum.nodes[2].set_twin(Some("another".to_owned()));
    assert_eq!(counted(&quorum, 0), Tally::Failed);
}

#[tokio::test]
async fn a_clock_that_went_back_says_nothing() {
    let quorum = unasked();
    let node = &quorum.nodes[0];
    let hear = |stamp| node.end_call(node.start_call(), said("ours", stamp)).unwrap();
    let now = micros(SystemEnv.now());
    assert!(hear(now + SECOND).span.is_some());
    assert!(hear(now).span.is_none());
    assert!(hear(now).span.is_some(), "it goes on from there");
}

/// As [`counted`], in a batch and on real nodes.
#[tokio::test]
async fn one_server_has_one_vote_in_a_batch() {
    let (nodes, store) = three().await;
    taken(&nodes, &[0], &name("a")).await;
    store.quorum.nodes[2].set_twin(Some("another".to_owned()));
    assert!(gathered(&store, &request("a", LEASE)).await.is_none());
}

/// Nodes of which the second has its own clock.
async fn clocked() -> (Nodes, Clock, Redlock) {
    let clock = Clock::new().await.unwrap();
    let mut options = vec![RedisOptions::new(); 3];
    options[1] = options[1].clone().clock(&clock);
    let nodes = Nodes::bare(options).await;
    first_use(&*nodes.direct().await).await;
    let store = client(described(&proxied(&nodes))).await;
    warmed(&nodes, &store).await;
    (nodes, clock, store)
}

/// Far enough to lose its vote, but not so far that the node itself takes the call for a late
/// request.
const OFF: f64 = 4.0;

#[tokio::test]
async fn a_vote_by_a_clock_that_is_off_does_not_count_in_a_batch() {
    let (nodes, clock, store) = clocked().await;
    taken(&nodes, &[0], &name("a")).await;
    clock.step(OFF).unwrap();
    // The next proposal is near both clocks, so that they agree on a number.
    let clock = store.quorum.clock().unwrap();
    store.quorum.propose(clock + 29 * SECOND / 10);
    assert!(gathered(&store, &request("a", LEASE)).await.is_none());
}

#[tokio::test]
async fn a_renewal_by_a_clock_that_is_off_does_not_count() {
    let (nodes, clock, store) = clocked().await;
    let asked = request("a", LEASE);
    let grant = granted_by_all(&nodes, &store, &asked).await;
    forgotten(&nodes, &[0], &asked.name).await;
    clock.step(OFF).unwrap();
    let answer = store.renew(&[&grant], SystemEnv.now()).await.remove(0);
    assert!(matches!(answer, Renewal::Unknown(_)), "{answer:?}");
}

#[tokio::test]
async fn nodes_with_different_settings_are_refused() {
    let quorum = unasked();
    let own = quorum.settings().unwrap();
    quorum.nodes[1]
        .server
        .set_agreed_settings(NodeSettings { longest_lease: own.longest_lease * 2, ..own });
    assert_eq!(quorum.settings().unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn validity_is_shorter_by_twice_the_bound() {
    let quorum = unasked();
    let (asked, sent) = (request("a", LEASE), SystemEnv.now());
    let own = Try { request: &asked, number: 1, sent, limit: BOUND, queued: false, first: true };
    let votes = [Vote::Ours(7), Vote::Ours(7), Vote::No];
    let token = FencingToken::new(7).unwrap();
    let (_, grant) = make_grant(&quorum, &own, &votes, |_| false, |_| true, token);
    assert_eq!(grant.margin, 2 * BOUND);
}

#[tokio::test]
async fn no_number_is_proposed_twice() {
    let quorum = unasked();
    assert!(quorum.propose(5) < quorum.propose(5));
    assert_eq!(quorum.propose(100), 100);
}
