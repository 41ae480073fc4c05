//! Guards of locks that readers share, on one node: who holds the lock.

use lock_core::Mode;
use verification::missing_guards::{Verdict, cases::check};

use super::{
    node::{Attempt, Node, SECOND, owner},
    releases::DOUBTFUL,
    votes::refused_with,
};

/// Replaces an owner: that of the holder if readers share the lock, and that of the turn if readers
/// were called.
pub(super) const READERS: &str = "00000000000000000000000000000000";

pub(super) fn refused(answer: Result<u64, String>) -> Verdict {
    refused_with("busy", answer)
}

/// The owners of the readers that hold the lock.
async fn inside(node: &mut Node) -> Vec<String> {
    let record = node.record().await;
    record.lines().skip(1).map(|line| line[..32].to_owned()).collect()
}

pub(super) async fn only(node: &mut Node, letters: &[&str]) -> Verdict {
    let wanted: Vec<_> = letters.iter().map(|letter| owner(letter)).collect();
    let found = inside(node).await;
    check(wanted == found, || format!("the readers inside are {found:?}"))
}

/// The end of a lease that is long after the tests.
const LATER: u64 = 9_000_000_000_000;

/// The record of `a` and this many others.
pub(super) fn shared_with(others: usize) -> String {
    let line = |at: usize| format!("\n{at:032x} 7 1 {LATER}");
    let lines: String = (1..=others).map(line).collect();
    format!("{READERS} 7 0 {} label{lines}\n{} 7 1 {LATER}", others + 1, owner("a"))
}

pub(super) async fn one_reader_above_the_most(node: &mut Node) -> Verdict {
    node.keep(&shared_with(Mode::MOST_READERS - 2)).await;
    node.shared("b").await?;
    refused(node.shared("c").await)
}

pub(super) async fn a_writer_after_a_reader(node: &mut Node) -> Verdict {
    let mut ahead = Attempt { shared: true, ..node.attempt("a").await };
    ahead.proposed += 2 * SECOND;
    let readers = node.ask(&ahead).await?;
    assert!(node.free("a", [""; 4]).await);
    let number = node.taken("b").await?;
    check(number > readers, || format!("a writer's {number} came after a reader's {readers}"))
}

pub(super) async fn a_number_for_a_reader(node: &mut Node) -> Verdict {
    let (first, other) = (node.shared("a").await?, node.shared("b").await?);
    assert!(first < other, "each has a number of its own");
    for number in [other + 5, other + 3] {
        assert_eq!(node.write("a", number, "").await, "written 1");
    }
    match (node.shared("a").await?, node.shared("b").await?, node.number().await) {
        (one, two, first_line) if [one, two, first_line] == [other + 5, other, other + 5] => Ok(()),
        numbers => Err(format!("{first} and {other}, of which one was raised, became {numbers:?}")),
    }
}

pub(super) async fn a_release_by_an_owner_that_is_no_reader(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    assert!(!node.free("b", DOUBTFUL).await);
    only(node, &["a"]).await
}

/// The lock is full: `a` with a short lease, `b` with a long one, and others from before there were
/// ends.
async fn full_lock(node: &mut Node) -> Result<(), String> {
    node.keep(&shared_with(Mode::MOST_READERS - 3)).await;
    assert!(node.free("a", [""; 4]).await);
    let short = Attempt { lease: 8_000, shared: true, ..node.attempt("a").await };
    node.ask(&short).await?;
    node.shared("b").await.map(drop)?;
    node.shared("c").await.map(drop)
}

pub(super) async fn room_of_a_dead_reader(node: &mut Node) -> Verdict {
    full_lock(node).await?;
    refused(node.shared("d").await)?;
    node.clock.step(9.0).map_err(|error| error.to_string())?;
    node.shared("d").await?;
    let (found, most) = (inside(node).await, Mode::MOST_READERS);
    let expected = ["b", "c", "d"].iter().all(|letter| found.contains(&owner(letter)));
    match expected && found.len() == most && !found.contains(&owner("a")) {
        true => refused(node.shared("e").await),
        false => Err(format!("{} readers are inside", found.len())),
    }
}

pub(super) async fn a_reader_whose_lease_is_prolonged(node: &mut Node, how: &str) -> Verdict {
    full_lock(node).await?;
    if how == "renewal" {
        assert_eq!(node.renew("a", 20_000, u64::MAX >> 11).await, 1);
    } else {
        node.shared("a").await?;
        let short = Attempt { lease: 8_000, shared: true, ..node.attempt("a").await };
        node.ask(&short).await?;
    }
    node.clock.step(9.0).map_err(|error| error.to_string())?;
    refused(node.shared("d").await)
}

pub(super) async fn a_renewal_after_the_end(node: &mut Node) -> Verdict {
    full_lock(node).await?;
    node.clock.step(9.0).map_err(|error| error.to_string())?;
    assert_eq!(node.renew("b", 20_000, u64::MAX >> 11).await, 1);
    let answer = node.renew("a", 20_000, u64::MAX >> 11).await;
    check(answer == 0, || format!("after the end of the lease it was answered {answer}"))
}
