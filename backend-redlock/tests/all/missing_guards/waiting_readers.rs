//! Guards of locks that readers share, on one node: who waits, and who is called next.

use lock_core::Mode;
use verification::missing_guards::Verdict;

use super::{
    node::{Attempt, Node, owner},
    readers::{READERS, only, refused, shared_with},
    releases::{entry_until, is_turn},
};

const LEAVES_PLACE: [&str; 4] = ["", "0", "", "1"];

pub(super) async fn one_that_leaves_the_most(node: &mut Node) -> Verdict {
    node.keep(&shared_with(Mode::MOST_READERS - 1)).await;
    node.queued_reader("b").await?;
    assert!(node.free("a", [""; 4]).await);
    is_turn(node, READERS).await
}

/// Its entry is still there: it was called, and has not asked yet.
pub(super) async fn one_that_leaves_another(node: &mut Node) -> Verdict {
    node.keep(&shared_with(Mode::MOST_READERS - 1)).await;
    node.queued_reader("b").await?;
    node.keep(&shared_with(1)).await;
    assert!(node.free("a", [""; 4]).await);
    is_turn(node, "").await
}

pub(super) async fn a_reader_past_a_writer(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    node.queued("b").await?;
    refused(node.shared("c").await)?;
    only(node, &["a"]).await?;
    // Also not after the leases of the present readers are over.
    node.forget().await;
    refused(node.shared("c").await)?;
    node.taken("b").await.map(drop)
}

pub(super) async fn a_reader_before_a_writer(node: &mut Node) -> Verdict {
    a_writer_behind_a_reader(node).await?;
    node.shared("b").await.map(drop)
}

pub(super) async fn a_reader_behind_a_dead_writer(node: &mut Node, until: &str) -> Verdict {
    node.shared("a").await?;
    node.queued("b").await?;
    entry_until(node, "b", until).await;
    node.shared("c").await.map(drop)
}

pub(super) async fn two_readers_that_are_called(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued_reader("b").await?;
    node.queued_reader("c").await?;
    let second = Attempt { shared: true, ..node.attempt("c").await };
    node.free_and_ask("a", &second).await?;
    node.shared("b").await?;
    only(node, &["c", "b"]).await
}

pub(super) async fn a_writer_behind_a_reader(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued_reader("b").await?;
    node.queued("c").await?;
    node.free("a", [""; 4]).await;
    is_turn(node, READERS).await
}

pub(super) async fn a_reader_that_is_called_and_leaves(node: &mut Node) -> Verdict {
    a_writer_behind_a_reader(node).await?;
    node.free("b", LEAVES_PLACE).await;
    is_turn(node, &owner("c")).await
}

pub(super) async fn a_writer_that_waits_for_a_reader(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    node.queued("b").await?;
    node.queued("c").await?;
    node.free("b", LEAVES_PLACE).await;
    is_turn(node, "").await?;
    node.free("a", [""; 4]).await;
    is_turn(node, &owner("c")).await
}

pub(super) async fn a_reader_that_gives_up(node: &mut Node) -> Verdict {
    node.keep(&shared_with(Mode::MOST_READERS - 1)).await;
    node.queued_reader("b").await?;
    node.queued_reader("c").await?;
    node.free("b", LEAVES_PLACE).await;
    is_turn(node, "").await
}

pub(super) async fn a_writer_that_gives_up(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    node.queued("b").await?;
    node.queued_reader("c").await?;
    node.free("b", LEAVES_PLACE).await;
    is_turn(node, READERS).await
}
