//! Guards of locks that readers share, on one node: who holds the lock.

use lock_core::Mode;
use servers::Change::{LeaveOut, Replace};
use verification::missing_guards::Verdict;
use verification::variants;

use super::node::{Attempt, Node, SECOND, Way, owner};

/// Replaces an owner: that of the holder if readers share the lock, and that of the turn if readers
/// were called.
pub(super) const READERS: &str = "00000000000000000000000000000000";

variants! {
    pub(super) VARIANTS |stage: Node|
    "S1: a writer waits for readers"
        Replace("writers_wait", "local shut = record and holder ~= READERS") => a_writer_beside_a_reader(stage);
    "S1: a reader waits for a writer" Replace("readers_wait", "shut = false") => a_reader_beside_a_writer(stage);
    "S1: no reader joins a thousand" Replace("readers_wait", "shut = record and count == 0") => one_reader_above_the_most(stage);
    "S1: a reader with a short lease does not shorten that of others" LeaveOut("join_lease") => a_reader_with_a_short_lease(stage);
    "S2: a writer's number is above that of a reader before it"
        Replace("notes_number", "redis.call('HSET', KEYS[1], 'top', text(top))") => a_writer_after_a_reader(stage);
    "S2: a reader keeps the number that is written back" LeaveOut("write_reader") => a_number_for_a_reader(stage);
    "S4: a reader that asks twice counts once"
        Replace("repeat", "if holder == owner and state == '0' then") => a_reader_that_asks_twice(stage);
    "S4: an owner that is not a reader frees nothing"
        Replace("reader_frees", "mine = true") => a_release_by_an_owner_that_is_no_reader(stage);
    "S4: when a reader leaves, the others stay" Replace("last_reader", "if false then") => a_reader_that_leaves(stage);
    "S4: a reader that left is no longer a reader" LeaveOut("leaves") => a_reader_that_leaves(stage);
    "S5: only a reader renews" LeaveOut("renew_owner") => a_reader_that_leaves(stage);
    "L1: a reader renews"
        Replace("renew_owner", "if string.sub(record, 1, 32) ~= owner then return 2 end") => a_renewal_by_a_reader(stage);
    "L1: a reader whose lease is over makes room at the limit" LeaveOut("room_of_the_dead") => room_of_a_dead_reader(stage);
    "S4: only readers whose leases are over make room"
        Replace("dead_reader", "if false then") => room_of_a_dead_reader(stage);
    "S3: a renewal by a reader prolongs its own lease" LeaveOut("renew_end")
        => a_reader_whose_lease_is_prolonged(stage, true);
    "S3: a repeat by a reader shortens no lease" LeaveOut("repeat_end") => a_reader_whose_lease_is_prolonged(stage, false);
    "S6: a clean-up leaves a later attempt of a reader" LeaveOut("later_attempt") => a_late_clean_up(stage);
}

pub(super) fn refused(answer: Result<u64, String>) -> Verdict {
    match answer {
        Err(word) if word == "busy" => Ok(()),
        other => Err(format!("it was not refused: {other:?}")),
    }
}

/// The owners of the readers that hold the lock.
async fn inside(node: &mut Node) -> Vec<String> {
    let record = node.record().await;
    record.lines().skip(1).map(|line| line[..32].to_owned()).collect()
}

pub(super) async fn only(node: &mut Node, letters: &[&str]) -> Verdict {
    let (wanted, found) = (letters.iter().map(|letter| owner(letter)), inside(node).await);
    match wanted.eq(found.iter().cloned()) {
        true => Ok(()),
        false => Err(format!("the readers inside are {found:?}")),
    }
}

/// A release by the long way, as after an attempt with missing answers.
const DOUBTFUL: [&str; 4] = ["", "", "9", ""];

async fn a_writer_beside_a_reader(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    for way in [Way::Short, Way::Batch, Way::Long] {
        let writer = node.attempt("b").await;
        if let Ok(number) = node.ask(way, &writer).await {
            return Err(format!("a writer was given {number} beside a reader"));
        }
    }
    only(node, &["a"]).await
}

async fn a_reader_beside_a_writer(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    refused(node.shared("b").await)
}

/// The end of a lease that is long after the tests.
const LATER: u64 = 9_000_000_000_000;

/// The record of `a` and this many others.
pub(super) fn shared_with(others: usize) -> String {
    let line = |at: usize| format!("\n{at:032x} 7 1 {LATER}");
    let lines: String = (1..=others).map(line).collect();
    format!("{READERS} 7 0 {} label{lines}\n{} 7 1 {LATER}", others + 1, owner("a"))
}

async fn one_reader_above_the_most(node: &mut Node) -> Verdict {
    node.keep(&shared_with(Mode::MOST_READERS - 2)).await;
    node.shared("b").await?;
    refused(node.shared("c").await)
}

async fn a_reader_with_a_short_lease(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    let short = Attempt { lease: 100, shared: true, ..node.attempt("b").await };
    node.ask(Way::Short, &short).await?;
    match node.left().await {
        left if left > 1_000 => only(node, &["a", "b"]).await,
        left => Err(format!("it ends in {left} ms")),
    }
}

async fn a_writer_after_a_reader(node: &mut Node) -> Verdict {
    let mut ahead = Attempt { shared: true, ..node.attempt("a").await };
    ahead.proposed += 2 * SECOND;
    let readers = node.ask(Way::Short, &ahead).await?;
    assert!(node.free("a", [""; 4]).await);
    match node.taken("b").await? {
        number if number > readers => Ok(()),
        number => Err(format!("a writer's {number} came after a reader's {readers}")),
    }
}

async fn a_number_for_a_reader(node: &mut Node) -> Verdict {
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

async fn a_reader_that_asks_twice(node: &mut Node) -> Verdict {
    let first = node.shared("a").await?;
    let other = node.shared("b").await?;
    let again = node.shared("a").await?;
    if again != first || other == first {
        return Err(format!(
            "{first} was given to the one, and then {again}; to the other {other}"
        ));
    }
    assert!(node.free("a", DOUBTFUL).await);
    only(node, &["b"]).await
}

async fn a_release_by_an_owner_that_is_no_reader(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    match node.free("b", DOUBTFUL).await {
        true => Err("it was released by somebody else".to_owned()),
        false => only(node, &["a"]).await,
    }
}

async fn a_reader_that_leaves(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    node.shared("b").await?;
    assert!(node.free("a", [""; 4]).await);
    only(node, &["b"]).await?;
    for (letter, expected) in [("a", 2), ("b", 1)] {
        let answer = node.renew(letter, 20_000, u64::MAX >> 11).await;
        if answer != expected {
            return Err(format!("the renewal of {letter} was answered {answer}"));
        }
    }
    if node.free("a", [""; 4]).await {
        return Err("it left twice".to_owned());
    }
    refused(node.taken("c").await)?;
    assert!(node.free("b", [""; 4]).await);
    node.taken("c").await.map(drop)
}

async fn a_renewal_by_a_reader(node: &mut Node) -> Verdict {
    let short = Attempt { lease: 5_000, shared: true, ..node.attempt("a").await };
    node.ask(Way::Short, &short).await?;
    match (node.renew("a", 20_000, u64::MAX >> 11).await, node.left().await) {
        (1, left) if left > 10_000 => Ok(()),
        answer => Err(format!("{answer:?}")),
    }
}

async fn a_late_clean_up(node: &mut Node) -> Verdict {
    node.shared("a").await?;
    node.free("a", ["", "4", "", ""]).await;
    only(node, &["a"]).await?;
    // The clean-up of the attempt itself.
    assert!(node.free("a", ["", "5", "", ""]).await);
    only(node, &[]).await
}

/// The lock is full: `a` with a short lease, `b` with a long one, and others from before there were
/// ends.
async fn full_lock(node: &mut Node) -> Result<(), String> {
    node.keep(&shared_with(Mode::MOST_READERS - 3)).await;
    assert!(node.free("a", [""; 4]).await);
    let short = Attempt { lease: 8_000, shared: true, ..node.attempt("a").await };
    node.ask(Way::Short, &short).await?;
    node.shared("b").await.map(drop)?;
    node.shared("c").await.map(drop)
}

async fn room_of_a_dead_reader(node: &mut Node) -> Verdict {
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

async fn a_reader_whose_lease_is_prolonged(node: &mut Node, renews: bool) -> Verdict {
    full_lock(node).await?;
    match renews {
        true => assert_eq!(node.renew("a", 20_000, u64::MAX >> 11).await, 1),
        false => {
            node.shared("a").await?;
            let short = Attempt { lease: 8_000, shared: true, ..node.attempt("a").await };
            node.ask(Way::Short, &short).await?;
        }
    }
    node.clock.step(9.0).map_err(|error| error.to_string())?;
    refused(node.shared("d").await)
}
