//! What a node refuses, and which numbers it gives.

use verification::missing_guards::Verdict;

use super::node::{Attempt, BOUND, LONGEST, Node, SECOND, Way, owner, text};

/// An attempt in which one thing is changed must be refused.
async fn refused(node: &mut Node, way: Way, change: impl FnOnce(&mut Attempt)) -> Verdict {
    let mut attempt = node.attempt("b").await;
    change(&mut attempt);
    match node.ask(way, &attempt).await {
        Ok(number) => Err(format!("it was given, with {number}")),
        Err(_) => Ok(()),
    }
}

/// The same attempt without the change is granted. So the refusal comes from the change.
async fn granted(node: &mut Node, way: Way) -> Result<u64, String> {
    let attempt = node.attempt("a").await;
    node.ask(way, &attempt).await.map_err(|word| format!("a free lock: {word}"))
}

async fn freed(node: &mut Node, letter: &str) -> Verdict {
    match node.free(letter, [""; 4]).await {
        true => Ok(()),
        false => Err("the release found nothing".to_owned()),
    }
}

fn is_above(number: u64, least: u64) -> Verdict {
    match number > least {
        true => Ok(()),
        false => Err(format!("{number} was given, and {least} had been before")),
    }
}

pub(super) async fn a_late_request(node: &mut Node, way: Way) -> Verdict {
    granted(node, way).await?;
    freed(node, "a").await?;
    let now = node.now().await;
    refused(node, way, |attempt| attempt.late = now - 1).await
}

pub(super) async fn a_clock_behind(node: &mut Node, way: Way) -> Verdict {
    refused(node, way, |attempt| attempt.estimated += 10 * SECOND).await
}

pub(super) async fn another_run(node: &mut Node, way: Way) -> Verdict {
    node.note("run", &"f".repeat(40)).await;
    refused(node, way, |_| {}).await
}

/// Not even the clock of such a record is updated.
pub(super) async fn another_version(node: &mut Node) -> Verdict {
    node.note("version", "2").await;
    let mut attempt = node.attempt("b").await;
    attempt.late = node.now().await - 1;
    match node.ask(Way::Long, &attempt).await {
        Err(word) if word == "version" => Ok(()),
        other => Err(format!("it was not refused for the version: {other:?}")),
    }
}

pub(super) async fn a_renewal_in_another_version(node: &mut Node) -> Verdict {
    granted(node, Way::Short).await?;
    node.note("version", "2").await;
    match node.renew("a", 20_000, u64::MAX >> 11).await {
        -1 => Ok(()),
        answer => Err(format!("it was answered {answer}")),
    }
}

pub(super) async fn a_quarantine(node: &mut Node, way: Way) -> Verdict {
    let until = node.now().await + 20 * SECOND;
    node.note("from", &until.to_string()).await;
    refused(node, way, |_| {}).await
}

/// If the record is of another run and the node's clock is ahead, the node begins no quarantine:
/// that would end too soon.
pub(super) async fn a_record_to_write_ahead_of_the_others(node: &mut Node) -> Verdict {
    node.note("run", &"f".repeat(40)).await;
    let mut attempt = node.attempt("a").await;
    attempt.estimated -= 10 * SECOND;
    match node.ask(Way::Short, &attempt).await {
        Err(word) if word == "clock" => Ok(()),
        other => Err(format!("it did not say that its clock is off: {other:?}")),
    }
}

pub(super) enum Seen {
    Granting,
    Refusing,
    Late,
    Renewing,
}

/// The node got a request while its clock was ahead. It still knows that when the clock has come
/// back.
pub(super) async fn a_clock_that_came_back(node: &mut Node, seen: Seen) -> Verdict {
    let right = node.now().await;
    if let Seen::Refusing | Seen::Renewing = seen {
        node.taken("a").await?;
    }
    node.clock.step(10.0).unwrap();
    match seen {
        Seen::Granting => {
            granted(node, Way::Short).await?;
        }
        Seen::Refusing => refused(node, Way::Long, |_| {}).await?,
        Seen::Late => refused(node, Way::Short, |attempt| attempt.late = right).await?,
        Seen::Renewing => assert_eq!(node.renew("a", 20_000, right).await, 1),
    }
    node.free("a", [""; 4]).await;
    node.clock.step(-10.0).unwrap();
    refused(node, Way::Short, |_| {}).await
}

/// Leases were twice as long before, and that is not waited out yet.
pub(super) async fn a_clock_that_came_back_in_a_long_wait(node: &mut Node) -> Verdict {
    let now = node.now().await;
    node.note("span", &(2 * LONGEST).to_string()).await;
    node.note("clock", &(now + 10 * SECOND).to_string()).await;
    refused(node, Way::Short, |_| {}).await?;
    let epoch = node.epoch();
    let until: u64 = text(&node.say(&["HGET", &epoch, "from"]).await).parse().unwrap();
    match until >= now + 2 * LONGEST {
        true => Ok(()),
        false => Err(format!("it grants again in {} µs", until - now)),
    }
}

pub(super) async fn a_lease_above_the_longest(node: &mut Node, way: Way) -> Verdict {
    refused(node, way, |attempt| attempt.lease = LONGEST / 1_000 + 1).await
}

pub(super) async fn a_floor_far_ahead(node: &mut Node, way: Way) -> Verdict {
    let now = node.now().await;
    refused(node, way, |attempt| attempt.floor = now + LONGEST).await
}

pub(super) async fn a_held_lock(node: &mut Node, way: Way) -> Verdict {
    granted(node, Way::Short).await?;
    refused(node, way, |_| {}).await
}

/// An abandoned owner; also after a late clean-up of an earlier attempt.
pub(super) async fn an_abandoned_owner(node: &mut Node, way: Way) -> Verdict {
    node.free("b", ["", "", "7", "1"]).await;
    node.free("b", ["", "", "3", "1"]).await;
    refused(node, way, |attempt| attempt.number = 7).await?;
    // A later attempt of the owner is not affected.
    let later = Attempt { number: 8, ..node.attempt("b").await };
    node.ask(Way::Short, &later).await.map(drop)
}

/// For a moment after a release the lock is reserved for the head of the queue.
pub(super) async fn an_attempt_past_the_head(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    node.queued("b").await?;
    let other = node.attempt("c").await;
    match node.free_and_ask("a", &other).await {
        Ok(_) => Err("it went past the head of the queue".to_owned()),
        Err(_) => {
            // The head itself is served.
            let head = node.attempt("b").await;
            node.ask(Way::Short, &head).await.map(drop)
        }
    }
}

/// A turn that ends far ahead was written before the clock went back.
pub(super) async fn a_turn_far_ahead(node: &mut Node) -> Verdict {
    let until = node.now().await + 60 * SECOND;
    node.crowd().await;
    node.set_entry("turn", &format!("{} {until}", owner("c"))).await;
    node.taken("a").await.map(drop)
}

pub(super) async fn a_repeat(node: &mut Node) -> Verdict {
    let first = node.taken("a").await?;
    match node.taken("a").await {
        Ok(again) if again == first => Ok(()),
        other => Err(format!("{first} was given before, and then {other:?}")),
    }
}

pub(super) async fn a_repeat_with_a_shorter_lease(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    let short = Attempt { lease: 100, ..node.attempt("a").await };
    node.ask(Way::Short, &short).await?;
    is_above(node.left().await, 1_000)
}

/// The clean-up of a late attempt must not remove a later one.
pub(super) async fn a_late_repeat_that_is_taken_back(node: &mut Node) -> Verdict {
    for number in [5, 9, 7] {
        let attempt = Attempt { number, ..node.attempt("a").await };
        node.ask(Way::Short, &attempt).await?;
    }
    match node.free("a", ["", "7", "", ""]).await {
        true => Err("the last attempt was taken back with one before it".to_owned()),
        false => Ok(()),
    }
}

pub(super) async fn a_repeat_after_a_release_that_keeps(node: &mut Node) -> Verdict {
    node.taken("a").await?;
    assert!(node.free("a", ["20000", "", "", ""]).await);
    match node.taken("a").await {
        Ok(_) => Err("what was released is held again".to_owned()),
        Err(_) => Ok(()),
    }
}

pub(super) async fn a_number_above_the_watermark(node: &mut Node, way: Way) -> Verdict {
    let mark = node.now().await + 20 * SECOND;
    for field in ["mark1", "top"] {
        node.note(field, &mark.to_string()).await;
    }
    is_above(granted(node, way).await?, mark)
}

pub(super) async fn a_number_above_the_floor(node: &mut Node, way: Way) -> Verdict {
    let mut attempt = node.attempt("a").await;
    // Above the proposal; on the short way not above the clock.
    attempt.floor =
        if way == Way::Short { attempt.proposed - 1 } else { attempt.proposed + SECOND };
    attempt.proposed -= 1_000;
    is_above(node.ask(way, &attempt).await?, attempt.floor)
}

/// If a proposal is far from its clock, the node gives a number near its clock.
pub(super) async fn a_proposal_far_ahead(node: &mut Node, way: Way) -> Verdict {
    let mut attempt = node.attempt("a").await;
    attempt.proposed += 3_600 * SECOND;
    let number = node.ask(way, &attempt).await?;
    is_above(node.now().await + 2 * BOUND, number)
}

pub(super) enum Raised {
    ByAttempt,
    Written,
}

/// A batch reads a watermark only if `top` shows that one may be too high.
pub(super) async fn a_batch_after_a_number_far_ahead(node: &mut Node, raised: Raised) -> Verdict {
    let ahead = node.now().await + 20 * SECOND;
    let before = match raised {
        Raised::ByAttempt => {
            node.note("mark1", &ahead.to_string()).await;
            let number = granted(node, Way::Long).await?;
            node.scatter().await;
            number
        }
        Raised::Written => {
            node.taken("a").await?;
            assert_eq!(node.write("a", ahead, "").await, "written 1");
            ahead
        }
    };
    freed(node, "a").await?;
    is_above(granted(node, Way::Batch).await?, before)
}
