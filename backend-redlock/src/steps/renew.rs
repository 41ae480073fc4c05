//! Renewal by majority, in one round trip per node for a batch.

use std::{sync::Arc, time::Duration};

use backend_redis::node::{Value, list, number};
use lock_core::{Env as _, Error, ErrorKind, Grant, Instant, LossReason, Renewal, SystemEnv};

use super::free::free_in_background;
use crate::{
    protocol::{
        clock::{Span, may_vote},
        grant_votes::{GrantVotes, Part, Parts},
        majority_expiry::majority_expiry,
        vote::majority,
    },
    quorum::{node::NodeAnswer, nodes::Quorum, round::Round},
    scripts::{self, free::Free},
};

/// The answer of a node for one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RenewReply {
    Renewed,
    Taken,
    Gone,
}

/// The answers of all nodes to one batch.
struct Answers {
    spans: Vec<Option<Span>>,
    words: Vec<Option<Vec<RenewReply>>>,
    /// The shortest of the nodes' longest leases. While the longest lease is lowered node by node,
    /// the lowest value counts.
    longest: Duration,
}

impl Answers {
    fn add(&mut self, at: usize, answer: NodeAnswer, grants: usize) -> Result<(), Error> {
        let words: Vec<RenewReply> =
            list(answer.part(2)?.clone())?.iter().map(word_of).collect::<Result<_, _>>()?;
        if words.len() == grants {
            self.spans[at] = answer.span;
            self.words[at] = Some(words);
            let longest = Some(answer.number(3)?).filter(|micros| *micros > 0);
            self.longest = self.longest.min(longest.map_or(Duration::MAX, Duration::from_micros));
        }
        Ok(())
    }

    fn of(&self, grant: usize) -> Vec<Option<RenewReply>> {
        self.words.iter().map(|words| words.as_ref().map(|words| words[grant])).collect()
    }

    /// Whether the answer for a grant is certain: a majority with a valid clock has renewed it, or
    /// a majority has lost it.
    fn certain(&self, grant: usize, in_line: &[bool]) -> bool {
        let words = self.of(grant);
        renewed(&words, in_line) >= majority(words.len()) || lost(&words).is_some()
    }
}

fn word_of(value: &Value) -> Result<RenewReply, Error> {
    Ok(match number(value)? {
        1 => RenewReply::Renewed,
        2 => RenewReply::Taken,
        _ => RenewReply::Gone,
    })
}

fn renewed(words: &[Option<RenewReply>], in_line: &[bool]) -> usize {
    words
        .iter()
        .zip(in_line)
        .filter(|(word, line)| **word == Some(RenewReply::Renewed) && **line)
        .count()
}

/// A grant that a majority no longer has is lost for good: a renewal never acquires.
fn lost(words: &[Option<RenewReply>]) -> Option<LossReason> {
    let count = |wanted| words.iter().filter(|word| **word == Some(wanted)).count();
    let (taken, gone) = (count(RenewReply::Taken), count(RenewReply::Gone));
    (taken + gone >= majority(words.len())).then_some(if taken > gone {
        LossReason::TakenOver
    } else {
        LossReason::Gone
    })
}

/// Renews grants, in one script call for each node.
pub(crate) async fn renew_batch(
    quorum: &Arc<Quorum>,
    grants: &[&Grant],
    sent: Instant,
) -> Vec<Renewal> {
    let shortest = grants.iter().map(|grant| grant.lease).min().unwrap_or_default();
    let limit = quorum.options.wait(shortest);
    let late = quorum.clock().map(|clock| quorum.late(clock, limit)).unwrap_or(u64::MAX >> 11);
    let call = scripts::renew::renew(&quorum.nodes[0].server, late, grants);
    let mut round = Round::ask(quorum, &quorum.contacts(), &call, limit);
    let nodes = quorum.nodes.len();
    let (spans, words) = (vec![None; nodes], vec![None; nodes]);
    let mut answers = Answers { spans, words, longest: Duration::MAX };
    let mut failure = None;
    let in_line = loop {
        let in_line = may_vote(&answers.spans, quorum.options.bound_micros());
        if (0..grants.len()).all(|grant| answers.certain(grant, &in_line)) {
            break in_line;
        }
        match round.next().await {
            Some((at, Ok(answer))) => {
                failure = answers.add(at, answer, grants.len()).err().or(failure);
            }
            Some((_, Err(error))) => failure = Some(error),
            None => break in_line,
        }
    };
    round.finish(quorum, |_, _| {});
    let apply = |(at, grant): (usize, &&Grant)| {
        let lease = grant.lease.min(answers.longest);
        apply(quorum, grant, &answers.of(at), &in_line, (sent, lease), failure.as_ref())
    };
    grants.iter().enumerate().map(apply).collect()
}

fn apply(
    quorum: &Arc<Quorum>,
    grant: &Grant,
    words: &[Option<RenewReply>],
    in_line: &[bool],
    (sent, lease): (Instant, Duration),
    failure: Option<&Error>,
) -> Renewal {
    let held = GrantVotes::of(grant);
    let mut parts = held.as_deref().map(GrantVotes::parts);
    let before = parts.as_ref().and_then(|parts| parts.lost);
    if let Some(reason) = before.or_else(|| lost(words)) {
        let mut until = SystemEnv.now() + grant.lease;
        if let Some(parts) = &mut parts {
            parts.lost = Some(reason);
            until = parts.reported;
        }
        drop(parts);
        retain(quorum, grant, until);
        return Renewal::Lost(reason);
    }
    let improved = parts.as_mut().and_then(|parts| improve(parts, words, in_line, sent, lease));
    let by_majority = renewed(words, in_line) >= quorum.majority();
    let until = if by_majority { Some(sent + lease) } else { improved };
    if let Some(until) = until {
        if let Some(parts) = &mut parts {
            parts.reported = parts.reported.max(until);
        }
        return Renewal::Renewed { from: until - lease, lease };
    }
    let message = format!(
        "{} of {} nodes renewed, and {} are needed",
        renewed(words, in_line),
        quorum.nodes.len(),
        quorum.majority()
    );
    let mut error = Error::new(ErrorKind::Unavailable, message);
    if let Some(failure) = failure {
        error = error.with_source(failure.clone());
    }
    Renewal::Unknown(error.at("redlock", "renew").on(&grant.name))
}

/// Frees what nodes have of a grant that a majority has lost, but not before `until`.
///
/// The holder learns of the loss at once, but may be in the middle of its work. Until then the
/// nodes that still have the grant keep others out. If they freed it earlier, they and the nodes
/// that never had it would be a majority for another holder.
fn retain(quorum: &Arc<Quorum>, grant: &Grant, until: Instant) {
    let Some(retained) = quorum.retained.enter(grant.owner) else { return };
    let call = Free::default().call(&quorum.nodes[0].server, &grant.name, grant.owner);
    let (own, lease) = (Arc::clone(quorum), grant.lease);
    quorum.spawn_background(async move {
        tokio::select! {
            // Then the nodes' leases are the bound.
            () = own.closed() => {}
            () = SystemEnv.sleep_until(until) => {
                for at in 0..own.nodes.len() {
                    free_in_background(&own, at, Arc::clone(&call), lease);
                }
            }
        }
        drop(retained);
    });
}

/// Notes until when each node keeps the lock. Returns the end for a majority, if that is later than
/// before.
fn improve(
    parts: &mut Parts,
    words: &[Option<RenewReply>],
    in_line: &[bool],
    sent: Instant,
    lease: Duration,
) -> Option<Instant> {
    let end =
        |parts: &[Part]| majority_expiry(&parts.iter().map(|part| part.until).collect::<Vec<_>>());
    let before = end(&parts.nodes);
    for (part, (word, line)) in parts.nodes.iter_mut().zip(words.iter().zip(in_line)) {
        match word {
            // At most the lease of this renewal. A later renewal may set it anew.
            Some(RenewReply::Renewed) if *line => part.until = Some(sent + lease),
            Some(RenewReply::Taken | RenewReply::Gone) => part.until = None,
            _ => {}
        }
    }
    let after = end(&parts.nodes)?;
    let spent = after.since(sent) < Duration::from_millis(1);
    (before.is_none_or(|before| after > before) && !spent).then_some(after)
}
