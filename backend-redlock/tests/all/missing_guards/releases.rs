//! Releases, renewals and calls to waiters.

use redis::Value;
use verification::missing_guards::{Verdict, cases::check};

use super::node::{Node, SECOND, owner, text};

/// A release by the long way, with a tombstone, as after an attempt with missing answers.
pub(super) const DOUBTFUL: [&str; 4] = ["", "", "9", ""];

/// A clean-up of an attempt before the last one.
pub(super) async fn a_late_clean_up(node: &mut Node, mode: &str) -> Verdict {
    match mode {
        "reader" => node.shared("a").await?,
        _ => node.taken("a").await?,
    };
    let freed = node.free("a", ["", "4", "4", ""]).await;
    check(!freed, || "the last attempt was taken back".to_owned())?;
    check(node.free("a", ["", "5", "", ""]).await, || "it is not held".to_owned())
}

pub(super) async fn a_release_with_one_waiting(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    node.free("a", DOUBTFUL).await;
    is_turn(node, &owner("b")).await
}

/// A batch leaves such a release to the long way.
pub(super) async fn a_batch_with_one_waiting(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    let answer = node.batch(&["a"], None).await;
    let left = matches!(&answer, Value::Array(each) if text(&each[0]) == "-1");
    check(left, || format!("{answer:?}, and nobody was called"))?;
    check(node.record().await.starts_with(&owner("a")), || "it is free".to_owned())
}

pub(super) async fn is_turn(node: &mut Node, of: &str) -> Verdict {
    let turn = node.turn().await;
    check(turn == of, || format!("it is the turn of {turn:?}"))
}

/// An entry is dead also if it lives longer than any entry can, since the clock went back.
pub(super) async fn entry_until(node: &mut Node, of: &str, until: &str) {
    let until = if until == "old" { 1 } else { node.now().await + 3_600 * SECOND };
    node.set_entry(&owner(of), &format!("{until} w channel")).await;
}

pub(super) async fn a_dead_entry(node: &mut Node, until: &str) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    node.queued("c").await?;
    entry_until(node, "b", until).await;
    node.free("a", [""; 4]).await;
    is_turn(node, &owner("c")).await
}

/// A waiter that was called and leaves passes the call on.
pub(super) async fn a_head_that_leaves(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    node.queued("c").await?;
    node.free("a", [""; 4]).await;
    node.free("b", ["", "0", "", "1"]).await;
    is_turn(node, &owner("c")).await
}

/// WAIT covers only what was written.
pub(super) async fn a_call_that_needs_no_longer_lease(node: &mut Node, _: &str) -> Verdict {
    node.taken("a").await?;
    let before = node.server.info("rdb_changes_since_last_save").await.unwrap();
    assert_eq!(node.renew("a", 100, u64::MAX >> 11).await, 1);
    let after = node.server.info("rdb_changes_since_last_save").await.unwrap();
    check(before != after, || "nothing was written".to_owned())
}
