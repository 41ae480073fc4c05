//! What a node refuses, and which numbers it gives.

use redis::Value;
use verification::missing_guards::{Verdict, cases::check};

use super::node::{Attempt, BOUND, LONGEST, Node, SECOND, owner, text};

pub(super) fn refused_with(word: &str, answer: Result<u64, String>) -> Verdict {
    check(answer == Err(word.to_owned()), || format!("it was not refused as {word}: {answer:?}"))
}

async fn freed(node: &mut Node, letter: &str) -> Verdict {
    check(node.free(letter, [""; 4]).await, || "the release found nothing".to_owned())
}

fn is_above(number: u64, least: u64) -> Verdict {
    check(number > least, || format!("{number} is not above {least}"))
}

/// An attempt is refused if this field of the epoch record is another.
pub(super) async fn an_epoch_with_another(node: &mut Node, field: &str) -> Verdict {
    let until = node.now().await + 20 * SECOND;
    node.note(field, &if field == "from" { until.to_string() } else { "f".repeat(40) }).await;
    refused_with("quarantine", node.taken("b").await)
}

pub(super) async fn a_late_request(node: &mut Node) -> Verdict {
    let mut attempt = node.attempt("b").await;
    attempt.late = node.now().await - 1;
    refused_with("late", node.ask(&attempt).await)
}

/// Not even the clock of such a record is updated.
pub(super) async fn a_late_request_in_another_version(node: &mut Node) -> Verdict {
    node.note("version", "2").await;
    let mut attempt = node.attempt("b").await;
    attempt.late = node.now().await - 1;
    refused_with("version", node.ask(&attempt).await)
}

pub(super) async fn a_clock_behind(node: &mut Node) -> Verdict {
    let mut attempt = node.attempt("b").await;
    attempt.estimated += 10 * SECOND;
    refused_with("clock", node.ask(&attempt).await)
}

/// If the record is of another run and the node's clock is ahead, the node begins no quarantine:
/// that would end too soon.
pub(super) async fn a_record_to_write_ahead_of_the_others(node: &mut Node) -> Verdict {
    node.note("run", &"f".repeat(40)).await;
    let mut attempt = node.attempt("a").await;
    attempt.estimated -= 10 * SECOND;
    refused_with("clock", node.ask(&attempt).await)
}

/// The node got a request while its clock was ahead. It still knows that when the clock has come
/// back.
pub(super) async fn a_clock_that_came_back(node: &mut Node, seen: &str) -> Verdict {
    let right = node.now().await;
    if let "refusing" | "renewing" = seen {
        node.taken("a").await?;
    }
    node.clock.step(10.0).unwrap();
    match seen {
        "granting" => drop(node.taken("a").await?),
        "refusing" => {
            node.crowd().await;
            refused_with("busy", node.taken("b").await)?;
        }
        "late" => {
            let late = Attempt { late: right, ..node.attempt("b").await };
            refused_with("late", node.ask(&late).await)?;
        }
        _ => assert_eq!(node.renew("a", 20_000, right).await, 1),
    }
    node.free("a", [""; 4]).await;
    node.clock.step(-10.0).unwrap();
    refused_with("quarantine", node.taken("b").await)
}

/// Leases were twice as long before, and that is not waited out yet.
pub(super) async fn a_clock_that_came_back_in_a_long_wait(node: &mut Node) -> Verdict {
    let now = node.now().await;
    node.note("span", &(2 * LONGEST).to_string()).await;
    node.note("clock", &(now + 10 * SECOND).to_string()).await;
    refused_with("quarantine", node.taken("b").await)?;
    let epoch = node.epoch();
    let until: u64 = text(&node.say(&["HGET", &epoch, "from"]).await).parse().unwrap();
    check(until >= now + 2 * LONGEST, || format!("it grants again in {} µs", until - now))
}

/// Also after a late clean-up of an earlier attempt.
pub(super) async fn an_owner_abandoned_twice(node: &mut Node) -> Verdict {
    node.free("b", ["", "", "7", "1"]).await;
    node.free("b", ["", "", "3", "1"]).await;
    let mut attempt = Attempt { number: 7, ..node.attempt("b").await };
    refused_with("busy", node.ask(&attempt).await)?;
    // A later attempt of the owner is not affected.
    attempt.number = 8;
    node.ask(&attempt).await.map(drop)
}

/// For a moment after a release the lock is reserved for the head of the queue.
pub(super) async fn an_attempt_past_the_head(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    let other = node.attempt("c").await;
    refused_with("busy", node.free_and_ask("a", &other).await)?;
    node.taken("b").await.map(drop)
}

/// A turn that ends far ahead was written before the clock went back.
pub(super) async fn a_turn_far_ahead(node: &mut Node) -> Verdict {
    let until = node.now().await + 60 * SECOND;
    node.crowd().await;
    node.set_entry("turn", &format!("{} {until}", owner("c"))).await;
    node.taken("a").await.map(drop)
}

/// The clean-up of a late attempt must not remove a later one.
pub(super) async fn a_late_repeat_that_is_taken_back(node: &mut Node) -> Verdict {
    for number in [5, 9, 7] {
        let attempt = Attempt { number, ..node.attempt("a").await };
        node.ask(&attempt).await?;
    }
    let freed = node.free("a", ["", "7", "", ""]).await;
    check(!freed, || "the last attempt was taken back with one before it".to_owned())
}

pub(super) async fn a_number_above_the_watermark(node: &mut Node) -> Verdict {
    let mark = node.now().await + 20 * SECOND;
    for field in ["mark1", "top"] {
        node.note(field, &mark.to_string()).await;
    }
    node.crowd().await;
    is_above(node.taken("a").await?, mark)
}

pub(super) async fn a_number_above_the_floor(node: &mut Node) -> Verdict {
    let mut attempt = node.attempt("a").await;
    attempt.floor = attempt.proposed + SECOND;
    is_above(node.ask(&attempt).await?, attempt.floor)
}

/// If a proposal is far from its clock, the node gives a number near its clock.
pub(super) async fn a_proposal_far_ahead(node: &mut Node) -> Verdict {
    let mut attempt = node.attempt("a").await;
    attempt.proposed += 3_600 * SECOND;
    node.crowd().await;
    let number = node.ask(&attempt).await?;
    is_above(node.now().await + 2 * BOUND, number)
}

/// A batch reads a watermark only if `top` shows that one may be too high.
pub(super) async fn a_batch_after_a_number_far_ahead(node: &mut Node, raised: &str) -> Verdict {
    let mut before = node.now().await + 20 * SECOND;
    if raised == "acquired" {
        node.note("mark1", &before.to_string()).await;
        node.crowd().await;
        before = node.taken("a").await?;
        node.scatter().await;
    } else {
        node.taken("a").await?;
        assert_eq!(node.write("a", before, "").await, "written 1");
    }
    freed(node, "a").await?;
    let attempt = node.attempt("a").await;
    match node.batch(&[], Some(&attempt)).await {
        Value::Array(numbers) => is_above(text(&numbers[0]).parse().unwrap(), before),
        number => is_above(text(&number).parse().unwrap(), before),
    }
}
