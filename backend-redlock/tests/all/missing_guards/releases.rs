//! Releases, renewals and raises.

use verification::missing_guards::Verdict;

use super::node::{LONGEST, Node, SECOND, owner};

/// A release by the long way, with a tombstone, as after an attempt with missing answers.
async fn free(node: &mut Node, letter: &str) -> bool {
    node.free(letter, ["", "", "9", ""]).await
}

fn stays(record: &str, whose: &str) -> Verdict {
    match record.starts_with(&owner(whose)) {
        true => Ok(()),
        false => Err(format!("the record of {whose} is now {record:?}")),
    }
}

pub(super) async fn a_release_by_another(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    free(node, "b").await;
    stays(&node.record().await, "a")
}

/// A lock that is kept for a last while stays so, whatever repeats of its release arrive.
pub(super) async fn a_release_after_one_that_keeps(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    assert!(node.free("a", ["20000", "", "", ""]).await);
    match free(node, "a").await {
        true => Err("it was released twice".to_owned()),
        false => stays(&node.record().await, "a"),
    }
}

/// A late clean-up of an earlier attempt.
pub(super) async fn a_late_clean_up(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.free("a", ["", "4", "4", ""]).await;
    stays(&node.record().await, "a")
}

pub(super) async fn a_release_with_one_waiting(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    free(node, "a").await;
    called(node, "b").await
}

/// A batch leaves such a release to the long way.
pub(super) async fn a_batch_with_one_waiting(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    match node.batch(&["a"], &[]).await.0.as_slice() {
        [-1] => stays(&node.record().await, "a"),
        other => Err(format!("{other:?}, and nobody was called")),
    }
}

async fn called(node: &mut Node, whom: &str) -> Verdict {
    match node.turn().await {
        turn if turn == owner(whom) => Ok(()),
        turn => Err(format!("it is the turn of {turn:?}")),
    }
}

pub(super) async fn a_dead_entry(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    node.queued("c").await?;
    node.set_entry(&owner("b"), "1 w channel").await;
    node.free("a", [""; 4]).await;
    called(node, "c").await
}

/// An entry is dead also if it lives longer than any entry can, since the clock went back.
pub(super) async fn an_entry_of_a_clock_ahead(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    node.queued("c").await?;
    let until = node.now().await + 3_600 * SECOND;
    node.set_entry(&owner("b"), &format!("{until} w channel")).await;
    node.free("a", [""; 4]).await;
    called(node, "c").await
}

/// A waiter that was called and leaves passes the call on.
pub(super) async fn a_head_that_leaves(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    node.queued("c").await?;
    node.free("a", [""; 4]).await;
    node.free("b", ["", "0", "", "1"]).await;
    called(node, "c").await
}

pub(super) async fn a_renewal_by_another(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    match node.renew("b", 20_000, u64::MAX >> 11).await {
        1 => Err("somebody else's lock was renewed".to_owned()),
        _ => Ok(()),
    }
}

pub(super) async fn a_renewal_of_what_is_gone(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.forget().await;
    match node.renew("a", 20_000, u64::MAX >> 11).await {
        1 => Err("nothing was renewed".to_owned()),
        _ => Ok(()),
    }
}

pub(super) async fn a_renewal_of_what_is_kept(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    assert!(node.free("a", ["20000", "", "", ""]).await);
    match node.renew("a", 20_000, u64::MAX >> 11).await {
        1 => Err("what was released was renewed".to_owned()),
        _ => Ok(()),
    }
}

pub(super) async fn a_renewal_above_the_longest_lease(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    let left = node.left().await;
    node.note("longest", "1000000").await;
    assert_eq!(node.renew("a", 2 * left, u64::MAX >> 11).await, 1);
    match node.left().await {
        longer if longer <= left => Ok(()),
        longer => Err(format!("it ends in {longer} ms")),
    }
}

pub(super) async fn a_renewal_with_a_shorter_lease(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    assert_eq!(node.renew("a", 100, u64::MAX >> 11).await, 1);
    match node.left().await {
        left if left > 1_000 => Ok(()),
        left => Err(format!("it ends in {left} ms")),
    }
}

/// A number is not written to another owner's lock.
pub(super) async fn a_number_for_another(node: &mut Node) -> Verdict {
    let own = node.taken("a").await?;
    let said = node.write("b", own + 1, "").await;
    match node.number().await {
        number if number == own && said == "written 0" => Ok(()),
        number => Err(format!("{said}, and {own} became {number}")),
    }
}

pub(super) async fn a_number_for_what_is_kept(node: &mut Node) -> Verdict {
    let own = node.taken("a").await?;
    assert!(node.free("a", ["20000", "", "", ""]).await);
    match node.write("a", own + 1, "").await {
        said if said == "written 0" => Ok(()),
        said => Err(format!("{said}, to what was released")),
    }
}

pub(super) async fn a_lower_number(node: &mut Node) -> Verdict {
    let own = node.taken("a").await?;
    node.write("a", own - 1, "").await;
    match node.number().await {
        number if number == own => Ok(()),
        number => Err(format!("{own} became {number}")),
    }
}

pub(super) async fn a_raise_far_ahead(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    let ahead = node.now().await + 2 * LONGEST;
    match node.write("a", ahead, &LONGEST.to_string()).await {
        said if said.starts_with("floor") => Ok(()),
        said => Err(format!("{said}, far ahead of the clock")),
    }
}

pub(super) async fn the_number_after_a_raise(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    let raised = node.now().await + 20 * SECOND;
    assert_eq!(node.write("a", raised, "").await, "written 1");
    assert!(node.free("a", [""; 4]).await);
    match node.taken("a").await? {
        number if number > raised => Ok(()),
        number => Err(format!("{number} came after {raised}")),
    }
}
