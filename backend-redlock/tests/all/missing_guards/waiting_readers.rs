//! Guards of locks that readers share, on one node: who waits, and who is called next.

use lock_core::Mode;
use servers::Change::{LeaveOut, Replace};
use verification::missing_guards::Verdict;
use verification::variants;

use super::{
    node::{Attempt, Node, SECOND, owner},
    readers::{READERS, only, refused, shared_with},
};

variants! {
    pub(super) VARIANTS |stage: Node|
    "L3: no reader passes a writer" LeaveOut("writer_first") => a_reader_past_a_writer(stage);
    "L3: no reader passes a writer while the lock is free"
        Replace("writer_first", "shut = shut or record and writer_first()") => a_reader_past_a_writer(stage);
    "L2: a reader does not wait for the writer behind it" LeaveOut("own_entry") => a_reader_before_a_writer(stage);
    "L3: a reader passes a dead writer"
        Replace("live_writer", "if until_ <= now + LIFE_US and not is_reader(entry) then return true end")
        => a_reader_behind_a_dead_writer(stage, DeadEntry::Old);
    "L3: a reader passes a writer of a clock that went back"
        Replace("live_writer", "if until_ > now and not is_reader(entry) then return true end")
        => a_reader_behind_a_dead_writer(stage, DeadEntry::FarAhead);
    "L2: a reader does not wait for the readers before it"
        Replace("live_writer", "if until_ > now and until_ <= now + LIFE_US then return true end")
        => two_readers_that_are_called(stage);
    "L2: all readers at the head are served" LeaveOut("readers_turn") => two_readers_that_are_called(stage);
    "L2: all readers at the head are called" Replace("call_readers", "local reader = false") => two_readers_that_are_called(stage);
    "L3: a writer is not called with the readers before it"
        Replace("call_writer", "if not reader and shared then break end") => a_writer_behind_a_reader(stage);
    "L2: readers that were called pass the call on"
        Replace("turn_left", "if whose == leaver then") => a_reader_that_is_called_and_leaves(stage);
    "L3: a writer is not called beside readers"
        Replace("call_writer", "if not reader and readers > 0 then break end") => a_writer_that_waits_for_a_reader(stage);
    "L2: a writer that gives up calls the readers behind it" LeaveOut("call_beside") => a_writer_that_gives_up(stage);
    "L2: one reader fewer than the limit calls waiting readers"
        Replace("call_beside", "called = called or shared and writer_left") => one_that_leaves_the_most(stage);
    "L4: not every reader that leaves calls waiting readers"
        Replace("call_beside", "called = called or shared and (writer_left or mine)") => one_that_leaves_another(stage);
    "L4: a reader that gives up calls no readers" Replace("writer_left", "writer_left = true") => a_reader_that_gives_up(stage);
}

async fn is_turn(node: &mut Node, of: &str) -> Verdict {
    match node.turn().await {
        turn if turn == of => Ok(()),
        turn => Err(format!("it is the turn of {turn:?}")),
    }
}

const LEAVES_PLACE: [&str; 4] = ["", "0", "", "1"];

async fn one_that_leaves_the_most(node: &mut Node) -> Verdict {
    node.keep(&shared_with(Mode::MOST_READERS - 1)).await;
    node.queued_reader("b").await?;
    assert!(node.free("a", [""; 4]).await);
    is_turn(node, READERS).await
}

/// Its entry is still there: it was called, and has not asked yet.
async fn one_that_leaves_another(node: &mut Node) -> Verdict {
    node.keep(&shared_with(Mode::MOST_READERS - 1)).await;
    node.queued_reader("b").await?;
    node.keep(&shared_with(1)).await;
    assert!(node.free("a", [""; 4]).await);
    is_turn(node, "").await
}

async fn a_reader_past_a_writer(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    node.queued("b").await?;
    refused(node.shared("c").await)?;
    only(node, &["a"]).await?;
    // Also not after the leases of the present readers are over.
    node.forget().await;
    refused(node.shared("c").await)?;
    node.taken("b").await.map(drop)
}

async fn a_reader_before_a_writer(node: &mut Node) -> Verdict {
    a_writer_behind_a_reader(node).await?;
    node.shared("b").await.map(drop)
}

enum DeadEntry {
    Old,
    FarAhead,
}

async fn a_reader_behind_a_dead_writer(node: &mut Node, entry: DeadEntry) -> Verdict {
    node.shared("a").await?;
    node.queued("b").await?;
    let until = match entry {
        DeadEntry::Old => 1,
        DeadEntry::FarAhead => node.now().await + 3_600 * SECOND,
    };
    node.set_entry(&owner("b"), &format!("{until} w channel")).await;
    node.shared("c").await.map(drop)
}

async fn two_readers_that_are_called(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued_reader("b").await?;
    node.queued_reader("c").await?;
    let second = Attempt { shared: true, ..node.attempt("c").await };
    node.free_and_ask("a", &second).await?;
    node.shared("b").await?;
    only(node, &["c", "b"]).await
}

async fn a_writer_behind_a_reader(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued_reader("b").await?;
    node.queued("c").await?;
    node.free("a", [""; 4]).await;
    is_turn(node, READERS).await
}

async fn a_reader_that_is_called_and_leaves(node: &mut Node) -> Verdict {
    a_writer_behind_a_reader(node).await?;
    node.free("b", LEAVES_PLACE).await;
    is_turn(node, &owner("c")).await
}

async fn a_writer_that_waits_for_a_reader(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    node.queued("b").await?;
    node.queued("c").await?;
    node.free("b", LEAVES_PLACE).await;
    is_turn(node, "").await?;
    node.free("a", [""; 4]).await;
    is_turn(node, &owner("c")).await
}

async fn a_reader_that_gives_up(node: &mut Node) -> Verdict {
    node.keep(&shared_with(Mode::MOST_READERS - 1)).await;
    node.queued_reader("b").await?;
    node.queued_reader("c").await?;
    node.free("b", LEAVES_PLACE).await;
    is_turn(node, "").await
}

async fn a_writer_that_gives_up(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    node.queued("b").await?;
    node.queued_reader("c").await?;
    node.free("b", LEAVES_PLACE).await;
    is_turn(node, READERS).await
}
